"""Help and hints are read by people and copied by them: every line that they show works."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.cli.running import Vcache
from vcache_cli.cli.app import build
from vcache_cli.cli.commands import COMMANDS
from vcache_cli.cli.examples import EXAMPLES
from vcache_cli.cli.help import COMMAND_GROUPS, OPTION_GROUPS

PACKAGE = Path(__file__).resolve().parents[2] / "vcache_cli"
GROUP: Any = typer.main.get_command(build())
QUOTED = re.compile(r"`(vcache [^`]+)`")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
OTHERS = {"--force-reinstall", "--help", "--host", "--jobs", "--port", "--reload", "--upgrade"}
"""Flags of pip, of a server and of `parallel`, and the one that each command has."""


def parse(line: str) -> None:
    """Parse a command line as the command would; nothing is run.

    Raises:
        AssertionError: it is no command line of ours.
    """
    for part in re.split(r" \| (?:ssh host |ssh HOST )?", line):
        words = shlex.split(part)
        if words[0] != "vcache":
            continue
        try:
            context = GROUP.make_context("vcache", words[1:], resilient_parsing=False)
            if rest := [*context._protected_args, *context.args]:
                command = GROUP.get_command(context, rest[0])
                assert command, f"no command `{rest[0]}`: {line}"
                command.make_context(rest[0], rest[1:], parent=context)
        except typer.Exit:
            continue
        except Exception as error:
            raise AssertionError(f"{line}: {error}") from error


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_example_of_a_command_parses(command: str) -> None:
    assert EXAMPLES[command]
    for line, purpose in EXAMPLES[command]:
        assert f"vcache {command}" in line
        assert purpose
        parse(line)


@pytest.mark.parametrize("command", list(COMMANDS))
def test_help_ends_with_examples_and_tells_all_that_there_is(vcache: Vcache, command: str) -> None:
    result = vcache(command, "--help")
    assert result.code == 0
    *_, examples = result.out.partition("Examples:\n")
    assert [line for line, _ in EXAMPLES[command]] == [
        line.strip() for line in examples.splitlines() if line.strip() and "# " not in line
    ]
    for parameter in GROUP.commands[command].params:
        for flag in parameter.opts:
            assert not flag.startswith("-") or flag in result.out


def test_many_options_are_told_in_groups_and_none_twice(vcache: Vcache) -> None:
    told = vcache("warm", "--help").out
    both = told + vcache("replay", "--help").out
    assert [title for title in OPTION_GROUPS if f"\n{title}:\n" not in both] == []
    assert "\nOptions:\n" not in told, "an option of `warm` is in none of OPTION_GROUPS"
    names = [name for names in OPTION_GROUPS.values() for name in names]
    assert len(names) == len(set(names))
    assert told.count("\n  -m, --model ") == 1


def test_the_commands_are_told_in_groups_with_whole_sentences(vcache: Vcache) -> None:
    told = vcache("--help").out
    for name, command in COMMANDS.items():
        assert f"  {name} " in told
        assert (command.__doc__ or "").split(maxsplit=1)[0] in told
    assert "..." not in told.partition("Options:")[2]
    grouped = {name for names in COMMAND_GROUPS.values() for name in names}
    assert set(COMMANDS) <= grouped


def texts() -> Iterator[tuple[str, str]]:
    """(place, text) of every string of the package but docstrings; gaps read as `X`."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inner = {
            id(part)
            for node in ast.walk(tree)
            for part in _parts(node)
            if isinstance(node, ast.JoinedStr | ast.Expr)
        }
        for node in ast.walk(tree):
            if id(node) in inner:
                continue
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node.value
            elif isinstance(node, ast.JoinedStr):
                text = "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "X"
                    for part in node.values
                )
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", text


def _parts(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.JoinedStr):
        return node.values
    return [node.value] if isinstance(node, ast.Expr) else []


def test_every_command_that_a_message_names_parses() -> None:
    found = [(place, line) for place, text in texts() for line in QUOTED.findall(text)]
    assert len(found) > 20
    for place, line in found:
        if line.removeprefix("vcache ") in COMMANDS:
            continue  # names the command, and is no line to be copied
        try:
            parse(line.replace(" ...", "").replace("...", ""))
        except AssertionError as error:
            raise AssertionError(f"{place}: {error}") from error


def test_every_flag_that_a_message_names_exists() -> None:
    known = {flag for command in GROUP.commands.values() for p in command.params for flag in p.opts}
    known |= {flag for parameter in GROUP.params for flag in parameter.opts} | OTHERS
    strange = [
        f"{place}: {flag}"
        for place, text in texts()
        if " " in text
        for flag in FLAG.findall(text)
        if flag not in known and "pip " not in text
    ]
    assert strange == []


OURS = re.compile(r"\b(ledger|triage|memo|outcome|provenance|recipe|corpus|sidecar|socket)s?\b")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_no_help_has_a_word_that_only_we_know(vcache: Vcache, command: str) -> None:
    told = vcache(*([command] if command else []), "--help").out
    assert OURS.findall(told.lower()) == []
