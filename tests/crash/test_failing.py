"""Calls that fail, or do less than asked: a documented end, a message, and nothing wrong."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.crash.failing import failed_once, points
from tests.crash.judge import judge, judge_rerun
from tests.crash.matrix import Row
from tests.crash.scenes import contents, fresh, run_here, scene
from tests.crash.shim import Fail, Shim, Short

TRIED = 5
"""Points of each command; `make crash` tries all."""


@pytest.fixture(autouse=True)
def _same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")


@pytest.mark.parametrize("command", ["warm", "prune", "import", "repair", "rebuild"])
def test_a_call_that_fails_costs_no_entry_and_is_told(command: str, tmp_path: Path) -> None:
    made, row = scene(command, tmp_path / "scene"), Row(command)
    found = [point for point in points(made, tmp_path) if point[1] == 0]
    for point in found[:: max(1, len(found) // TRIED)]:
        failed_once(made, tmp_path, point, row)
    assert row.points >= TRIED
    assert row.wrong.is_good, row.wrong


def test_a_disk_that_stays_full_keeps_what_was_stored(tmp_path: Path) -> None:
    made = scene("import", tmp_path / "scene")
    store = fresh(made, tmp_path / "store")
    fail = Fail("write .vcache/tmp/*", errno.ENOSPC, forever=True)
    with Shim(store, fail).installed():
        ran = run_here(made.words(store))
    assert ran.code == 13
    assert "No space left on device" in ran.err
    assert "free" in ran.err
    assert "`vcache prune" in ran.err
    assert fail.struck > 1
    assert judge(made, store).is_good
    assert len(contents(store)) < len(made.final)
    assert judge_rerun(made, store).is_good


@pytest.mark.parametrize("command", ["warm", "import", "repair"])
def test_reads_and_writes_that_do_little_at_a_time_change_nothing(
    command: str, tmp_path: Path
) -> None:
    made = scene(command, tmp_path / "scene")
    store = fresh(made, tmp_path / "store")
    shim = Shim(store, Short(1000))
    with shim.installed():
        ran = run_here(made.words(store))
    assert ran.code == 0, ran.err
    assert contents(store) == made.final
    assert any(call.name in {"read", "readv", "write"} for call in shim.log)


def test_a_read_that_fails_once_does_not_put_a_sound_entry_aside(tmp_path: Path) -> None:
    made = scene("repair", tmp_path / "scene")
    store = fresh(made, tmp_path / "store")
    site = next(
        site for site, *_ in points(made, tmp_path) if site in {"read entry", "readv entry"}
    )
    fail = Fail(site, errno.EIO)
    with Shim(store, fail).installed():
        ran = run_here(made.words(store))
    assert (ran.code, fail.struck) == (0, 1)
    assert contents(store) == made.final


def test_a_full_table_of_files_does_not_put_sound_entries_aside(tmp_path: Path) -> None:
    made = scene("repair", tmp_path / "scene")
    store = fresh(made, tmp_path / "store")
    with Shim(store, Fail("open entry", errno.EMFILE, forever=True)).installed():
        ran = run_here(made.words(store))
    assert ran.code != 1
    assert made.kept.items() <= contents(store).items()


def test_a_store_that_cannot_be_opened_holds_no_lock(tmp_path: Path) -> None:
    made = scene("import", tmp_path / "scene")
    store = fresh(made, tmp_path / "store")
    with Shim(store, Fail("open .vcache/tmp", errno.EIO)).installed():
        ran = run_here(made.words(store))
    assert ran.code == 14
    assert "Input/output error" in ran.err
    assert judge(made, store).is_good
