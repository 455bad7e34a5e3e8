"""The table in README.md names tests that exist, and forgets none of those beside it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
LINES = (HERE / "README.md").read_text(encoding="utf-8").splitlines()
ROWS = [line.strip("| ").split(" | ") for line in LINES if line.endswith("` |")]


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_each_attack_names_a_test_that_exists(row: list[str]) -> None:
    attack, outcome, named = row
    assert attack
    assert outcome
    found = re.fullmatch(r"`([./\w]+)(?:::(\w+))?`", named)
    assert found, named
    path = (HERE / found[1]).resolve()
    assert path.exists(), path
    assert found[2] is None or found[2] in names_in(path)


def test_each_file_of_attacks_has_a_row() -> None:
    assert len(ROWS) > 40
    named = {re.split(r"[`:]", row[2])[1] for row in ROWS}
    files = {path.name for path in HERE.glob("test_*.py")} - {"test_table.py"}
    assert files <= named
