"""Logs of runs go by age and size; the newest and those in use never do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.care import DAY, NOW, make_store
from vcache_cli.quantity import format_time
from vcache_cli.store.meta import StoreRoot
from vcache_cli.store.run_retention import (
    KEPT_BYTES,
    KEPT_RUNS,
    KEPT_SECONDS,
    LogFile,
    expired_logs,
    retire_logs,
)
from vcache_cli.store.runs import RunLog, list_runs, runs_dir


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    return make_store(tmp_path / "store")


def log(root: StoreRoot, day: int) -> Path:
    """The file of a run that ended so many days ago."""
    moment = NOW - day * DAY
    stamp = format_time(moment).replace("-", "").replace(":", "")
    path = runs_dir(root) / f"{stamp}-{day:08x}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"summary":{}}\n')
    os.utime(path, (moment, moment))
    return path


def days_left(root: StoreRoot) -> list[int]:
    return sorted(int(run.id[-8:], 16) for run in list_runs(root))


def test_the_newest_stay_and_of_the_others_those_of_a_month(root: StoreRoot) -> None:
    for day in (*range(10), *range(40, 60)):
        log(root, day)
    assert len(retire_logs(root, now=NOW)) == 10
    assert days_left(root) == [*range(10), *range(40, 50)]
    assert retire_logs(root, now=NOW) == []


def test_a_store_warmed_once_a_year_keeps_its_logs(root: StoreRoot) -> None:
    for year in range(KEPT_RUNS):
        log(root, 365 * year)
    assert retire_logs(root, now=NOW) == []


def test_a_log_that_a_run_still_writes_never_goes(root: StoreRoot) -> None:
    with RunLog(root, now=NOW - 400 * DAY) as live:
        os.utime(live.path, (NOW - 400 * DAY, NOW - 400 * DAY))
        for day in range(KEPT_RUNS + 5):
            log(root, day + 100)
        assert len(retire_logs(root, now=NOW)) == 5
        assert live.path.exists()


def test_what_is_no_log_stays(root: StoreRoot, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    for day in range(KEPT_RUNS):
        log(root, day)
    link = runs_dir(root) / "20200101T000000Z-0000beef.jsonl"
    link.symlink_to(secret)
    strangers = [runs_dir(root) / name for name in ("notes.jsonl", "20200101T000000Z-x.jsonl")]
    for path in strangers:
        path.write_text("")
        os.utime(path, (0, 0))
    assert retire_logs(root, now=NOW) == []
    assert link.is_symlink()
    assert all(path.exists() for path in (secret, *strangers))


def test_the_end_of_a_run_retires_old_logs(root: StoreRoot) -> None:
    for day in range(KEPT_RUNS + 3):  # all of them years ago by the real clock
        log(root, day)
    with RunLog(root) as run:
        run.finish({})
    assert len(list_runs(root)) == KEPT_RUNS


LOGS = st.builds(
    LogFile,
    st.integers(0, 10**6).map(lambda number: f"{number:016d}-x"),
    st.floats(0, NOW),
    st.integers(0, KEPT_BYTES),
)


@given(st.lists(LOGS, max_size=60))
def test_what_is_left_is_young_and_small_or_among_the_newest(logs: list[LogFile]) -> None:
    expired = expired_logs(logs, NOW)
    left = list(logs)
    for each in expired:
        left.remove(each)
    assert len(left) >= min(KEPT_RUNS, len(logs))
    if len(left) > KEPT_RUNS:
        older = sorted(left, key=lambda each: (each.name, each.written_seconds))[:-KEPT_RUNS]
        assert all(NOW - each.written_seconds <= KEPT_SECONDS for each in older)
        assert sum(each.size_bytes for each in left) <= KEPT_BYTES
