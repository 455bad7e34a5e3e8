"""Small pieces, each with a name and a statement: the gate on sizes and docstrings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "vcache_cli"
MODULES = sorted(PACKAGE.rglob("*.py"))
MAX_BODY_LINES = 40
MAX_MODULE_LINES = 300

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = Function | ast.ClassDef


def body_lines(function: Function) -> int:
    """Lines from the first statement after the docstring to the last."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def public(node: ast.Module | ast.ClassDef) -> Iterator[tuple[str, Documented]]:
    """Public classes, functions and methods, outermost first, by dotted name."""
    for child in node.body:
        if not isinstance(child, Documented) or child.name.startswith("_") or is_variant(child):
            continue
        yield child.name, child
        if isinstance(child, ast.ClassDef):
            yield from ((f"{child.name}.{name}", inner) for name, inner in public(child))


def is_variant(node: Documented) -> bool:
    """An overload, an override or a setter: documented at its first definition."""
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return not names.isdisjoint({"deleter", "overload", "override", "setter"})


def offences(path: Path) -> Iterator[str]:
    """What is too long or undocumented in one module."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    if (length := len(text.splitlines())) > MAX_MODULE_LINES:
        yield f"module: {length} lines, at most {MAX_MODULE_LINES}"
    for node in ast.walk(tree):
        if isinstance(node, Function) and (length := body_lines(node)) > MAX_BODY_LINES:
            yield f"{node.name}: body of {length} lines, at most {MAX_BODY_LINES}"
    for name, node in public(tree):
        if ast.get_docstring(node) is None:
            yield f"{name}: no docstring"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_and_its_functions_are_small_and_documented(path: Path) -> None:
    assert list(offences(path)) == []
