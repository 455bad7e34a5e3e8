"""stdout is the result only; talk goes to stderr; nobody is asked who cannot answer."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from vcache_cli.cli.blocks import Block, Lines
from vcache_cli.cli.documents import LIST_CAP, envelope
from vcache_cli.cli.errors import Problem
from vcache_cli.cli.output import Output
from vcache_cli.errors import UsageError


def view(document: Mapping[str, Any]) -> Sequence[Block]:
    return (Lines((f"name {document['name']}",)),)


def finished(problem: Problem | None = None, **styles: bool) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    output = Output(**styles, stdout=out, stderr=err)
    code = output.finish({"name": "a\x1b"}, view, bare=["b\n"], problem=problem)
    return code, out.getvalue(), err.getvalue()


def test_the_same_value_is_text_json_or_bare() -> None:
    assert finished() == (0, "name a\\x1b\n", "")
    assert finished(quiet=True) == (0, "b\\n\n", "")
    assert finished(json=True) == (0, '{"name": "a\\u001b"}\n', "")


def test_a_problem_is_in_the_document_and_on_stderr() -> None:
    code, out, err = finished(Problem(5, "gate", "too\ncold", "warm it"), json=True)
    assert code == 5
    assert json.loads(out)["error"] == {
        "code": 5,
        "kind": "gate",
        "message": "too\ncold",
        "hint": "warm it",
    }
    assert err == "error: too\\ncold\nhint: warm it\n"


def test_quiet_keeps_complaints_and_drops_talk() -> None:
    err = io.StringIO()
    output = Output(quiet=True, stderr=err)
    output.say("talk")
    output.complain("trouble")
    assert err.getvalue() == "trouble\n"


def test_nobody_is_asked_without_a_terminal() -> None:
    output = Output(stderr=io.StringIO())
    with pytest.raises(UsageError) as raised:
        output.confirm("delete 3 entries?", yes=False)
    assert "--yes" in raised.value.hint
    assert output.confirm("delete 3 entries?", yes=True)


def test_a_closed_pipe_is_not_written_to_again(
    tmp_path: Path,
) -> None:
    with open(tmp_path / "out", "w", encoding="utf-8") as real:
        output = Output(stdout=Closed(real.fileno()))
        assert output.finish({"name": "a"}, view) == 0


class Closed(io.StringIO):
    """A pipe whose reader has left."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def fileno(self) -> int:
        return self._number

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_long_lists_are_cut_and_counted() -> None:
    document = envelope("warm", {"failures": [{"n": n} for n in range(LIST_CAP + 7)]})
    assert len(document["failures"]) == LIST_CAP
    assert document["failures_omitted"] == 7


def test_what_was_cut_before_is_counted_too() -> None:
    fields = {"problems": [{}] * (LIST_CAP + 1), "problems_omitted": 5}
    assert envelope("verify", fields)["problems_omitted"] == 6


def test_unknown_values_are_left_out_at_any_depth() -> None:
    document = envelope("ls", {"a": None, "b": [{"c": None, "d": 1}]})
    assert "a" not in document
    assert document["b"] == [{"d": 1}]
