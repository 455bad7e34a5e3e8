"""What to do next are commands that work, and none where nothing is left to do."""

from __future__ import annotations

import pytest

from tests.cli.test_help import parse
from vcache_cli.cli.blocks import plain_lines
from vcache_cli.cli.next_steps import next_steps
from vcache_cli.cli.views import warm_view

WORDS = ("warm", "my photos", "-m", "tower", "--", "-x.jpg")


DOCUMENT = {"store": "/a store"}


@pytest.mark.parametrize("code", [0, 1, 13, 14, 16])
def test_where_all_is_well_or_a_limit_ended_it_only_the_target_has_a_word(code: int) -> None:
    assert list(next_steps(DOCUMENT, code, WORDS)) == []
    assert list(next_steps(DOCUMENT, code, WORDS, "restart it")) == ["restart it"]


def test_failures_are_looked_at_and_tried_again() -> None:
    again, look = next_steps(DOCUMENT, 3, WORDS)
    assert again.startswith("vcache warm --retry-errors 'my photos' -m tower -- -x.jpg  # ")
    assert look.startswith("vcache report --store '/a store' --out report.html  # ")
    for step in (again, look):
        parse(step.partition("  # ")[0])


def test_what_was_asked_for_is_not_asked_for_twice() -> None:
    again, _ = next_steps(DOCUMENT, 3, ("warm", "a", "--retry-errors"))
    assert again.count("--retry-errors") == 1


@pytest.mark.parametrize("code", [130, 143])
def test_a_run_that_was_interrupted_goes_on(code: int) -> None:
    (again,) = next_steps(DOCUMENT, code, WORDS)
    assert again.startswith("vcache warm 'my photos' ")
    assert "goes on" in again


@pytest.mark.parametrize("words", [(), ("warm", "-"), ("warm", "@-", "-m", "x")])
def test_what_cannot_be_read_twice_is_not_offered_again(words: tuple[str, ...]) -> None:
    (look,) = next_steps(DOCUMENT, 3, words)
    assert look.startswith("vcache report ")


def test_the_summary_names_the_first_failures_and_counts_the_rest() -> None:
    failures = [
        {"source": f"{n}.jpg", "stage": "decode", "kind": kind, "message": "ends early"}
        for n, kind in enumerate(("truncated", "truncated", "bomb", "truncated", "io", "io"))
    ]
    items = dict.fromkeys(("stored", "present", "copy", "skipped"), 0) | {"failed": 9, "total": 9}
    found = {
        "items": items,
        "bytes": {"read": 0, "written": 0},
        "seconds": {"total": 1.0},
        "items_per_second": 9.0,
        "model": "m",
        "stage": "features",
        "failures": failures,
        "store": "/s",
        "run": "r",
    }
    *_, first, second, third, _, fifth, more = plain_lines(warm_view(found))
    assert [each[:9] for each in (first, second, fifth)] == ["  0.jpg: ", "  1.jpg: ", "  4.jpg: "]
    assert third == "  2.jpg: decode: ends early"
    assert more == "  and 4 more in /s/.vcache/runs/r.jsonl"
    assert "failed: 3 truncated, 2 io, 1 bomb" in list(plain_lines(warm_view(found)))
