"""The numbers of a report are those of the run file, whoever wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.making import EARLIER_ID, document, line, report_of, write_run
from vcache_cli.report import make_report
from vcache_cli.report.fold import MAX_LISTED, fold_run
from vcache_cli.report.page import html_page
from vcache_cli.report.thumbnails import Thumbnails
from vcache_cli.store.run_file import run_at

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
FIELDS = ("source", "status", "key", "kind", "bytes", "seconds", "error", "warnings")


def test_every_item_counts_once(tmp_path: Path) -> None:
    lines = [
        line("a.png"),
        line("b.png", "present", seconds={}),
        line("c.png", "copy", key=line("a.png")["key"]),
        line("d.mp4", "skipped"),
        line("e.jpg", "failed"),
    ]
    fields = report_of(tmp_path, lines).fields
    assert fields["items"] == {
        "total": 5,
        "stored": 1,
        "present": 1,
        "copy": 1,
        "skipped": 1,
        "failed": 1,
    }
    assert (fields["hit_rate"], fields["coverage"]) == (1 / 4, 3 / 4)
    assert fields["bytes"] == {"read": 50, "written": 20}
    assert fields["seconds"]["decode"] == 0.08
    assert fields["bottleneck"] == "decode"
    assert fields["skips"] == {"video": 1}
    assert fields["failure_kinds"] == [{"stage": "decode", "kind": "truncated", "items": 1}]


def test_copies_are_named_together(tmp_path: Path) -> None:
    key = line("a.png")["key"]
    lines = [line("a.png"), line("b.png", "copy", key=key), line("c.png", "present", key=key)]
    fields = report_of(tmp_path, [*lines, line("z.png")]).fields
    assert fields["repeats"] == 2
    expected = {"key": key, "items": 3, "sources": ["a.png", "b.png", "c.png"]}
    assert fields["duplicates"] == [expected]


def test_a_run_that_was_killed_has_its_items_but_no_time(tmp_path: Path) -> None:
    run = run_at(write_run(tmp_path, [line("a.png")], ended=False))
    assert run is not None
    fields = make_report(run).fields
    assert fields["run"]["state"] == "killed"
    assert fields["items"]["stored"] == 1
    assert "total" not in fields["seconds"]
    assert "items_per_second" not in fields


@pytest.mark.parametrize("seconds", [0, 0.0, 5e-324])
def test_a_run_of_no_time_has_no_rate(tmp_path: Path, seconds: float) -> None:
    path = write_run(tmp_path, [line("a.png")])
    told = {"total": seconds, "discover": seconds}
    path.write_text(f"{json.dumps(line('a.png'))}\n{json.dumps({'summary': {'seconds': told}})}\n")
    run = run_at(path)
    assert run is not None
    found = document(make_report(run))
    assert "items_per_second" not in found
    assert "items a second" not in html_page(found, Thumbnails())


def test_lists_are_cut_and_counted(tmp_path: Path) -> None:
    warnings = [{"kind": "alpha_dropped", "message": "gone"}]
    lines = [line(f"{n}.png", "failed", warnings=warnings) for n in range(MAX_LISTED + 5)]
    fields = report_of(tmp_path, lines).fields
    for name in ("failures", "warnings"):
        assert (len(fields[name]), fields[f"{name}_omitted"]) == (MAX_LISTED, 5)
    assert fields["warned"] == MAX_LISTED + 5
    assert fields["warning_kinds"][0]["items"] == MAX_LISTED + 5


def test_a_comparison_says_whose_fate_changed(tmp_path: Path) -> None:
    earlier = [line("mended.png", "failed"), line("broken.png"), line("same.png", "failed")]
    before = run_at(write_run(tmp_path, earlier, run_id=EARLIER_ID))
    now = [line("mended.png"), line("broken.png", "failed"), line("same.png", "failed")]
    found = report_of(tmp_path, [*now, line("new.png")], before=before).fields["comparison"]
    assert found["newly_failed"] == ["broken.png"]
    assert found["mended"] == ["mended.png"]
    changes = {each["name"]: each for each in found["changes"]}
    assert changes["stored"] == {"name": "stored", "unit": "count", "before": 1, "after": 2}
    assert "tokens" in changes
    assert "before" not in changes["tokens"]


@settings(max_examples=50)
@given(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, JSON)), max_size=5))
def test_no_line_breaks_the_fold(lines: list[dict[str, Any]]) -> None:
    good = [each | {"source": "x", "status": "failed"} for each in lines]
    assert fold_run([*lines, *good]).done >= len(good)


def test_a_long_text_is_cut() -> None:
    fold = fold_run([line("x" * 10_000, "failed")])
    assert len(fold.failures[0]["source"]) == 2_000


def test_a_run_that_is_not_over_says_so(tmp_path: Path) -> None:
    from tests.store.care import make_store
    from vcache_cli.report import make_report
    from vcache_cli.store.runs import RunLog, last_run

    root = make_store(tmp_path / "store")
    with RunLog(root):
        run = last_run(root)
        assert run is not None
        assert make_report(run, root=root).fields["run"]["state"] == "running"
    run = last_run(root)
    assert run is not None
    assert make_report(run, root=root).fields["run"]["state"] == "killed"
