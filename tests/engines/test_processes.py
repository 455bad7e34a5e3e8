"""Workers that die, and what it costs."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engines.deeds import Deadly, Frail, double, loaded, whole_process, zeros
from tests.patience import until
from vcache_cli.engines import Limits, ProcessEngine
from vcache_cli.errors import UsageError
from vcache_cli.protocols import Engine

ROOT = Path(__file__).resolve().parents[2]
MEMORY_BYTES = 64 << 20

PARENT = """
import sys, time
from tests.engines.deeds import double, until_there, whole_process, Deadly
from vcache_cli.engines import Limits, ProcessEngine
with ProcessEngine(2, Limits(seconds={seconds}), forks={forks}).session(Deadly()) as session:
    session.submit("hello")
    session.take(wait=True)
    session.submit("loop")
    print("under way", flush=True)
    time.sleep(600)
"""


BEFORE: set[int] = set()
"""What other tests keep running, such as the process that forks their commands."""


@pytest.fixture(autouse=True)
def _own_children() -> None:
    BEFORE.clear()
    BEFORE.update(descendants(os.getpid()))


@pytest.fixture(params=[True, False], ids=["forks", "interpreters"])
def forks(request: pytest.FixtureRequest) -> bool:
    """Both ways to have workers."""
    return bool(request.param)


def all_of(engine: Engine, work: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    """Every result."""
    taken: list[Any] = []
    with engine.session(work) as session:
        for value in values:
            session.submit(value)
            while session.full:
                taken += session.take(wait=True)
        while session.pending:
            taken += session.take(wait=True)
    return taken


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        ("crash", "crashed"),
        ("abort", "crashed"),
        ("leave", "crashed"),
        ("term", "crashed"),
        ("spin", "timeout"),
        ("loop", "timeout"),
        ("eat", "memory"),
        ("killed", "memory"),
    ],
)
def test_what_dies_is_the_only_victim_and_is_named(way: str, kind: str, *, forks: bool) -> None:
    values = [f"number {number}" for number in range(20)]
    values[10:10] = [way]
    seconds = 2.0 if kind == "timeout" else 300.0  # of all others, too, on a slow machine
    limits = Limits(seconds, MEMORY_BYTES)
    taken = all_of(ProcessEngine(2, limits, forks=forks), Deadly(), values)
    assert f"lost {way}: {kind}: about to {way}" in taken
    assert sorted(taken)[:20] == sorted(f"did {value}" for value in values if value != way)


def test_a_limit_beyond_what_a_system_can_count_is_none() -> None:
    limits = Limits(seconds=200 * 365 * 86_400.0, memory_bytes=2**80)
    assert sorted(all_of(ProcessEngine(1, limits), double, [1, 2])) == [2, 4]


def test_work_that_knows_nothing_of_isolation_ends_the_run_where_it_dies() -> None:
    with pytest.raises(RuntimeError, match="SIGABRT"):
        all_of(ProcessEngine(1), Frail(), ["abort"])


def test_no_process_starts_before_the_first_input_and_no_more_than_are_needed() -> None:
    with ProcessEngine(8).session(whole_process) as session:
        assert children() == set()
        pids = set()
        for _ in range(5):
            session.submit(None)
            pids |= set(session.take(wait=True))
        assert len(pids) == 1
        assert pids.isdisjoint({os.getpid()})


def test_nothing_is_left_when_the_session_is_left(*, forks: bool) -> None:
    with ProcessEngine(2, forks=forks).session(Deadly()) as session:
        for value in ("one", "spin", "spin", "two"):
            session.submit(value)
        session.take(wait=True)
        assert children()
    assert children() == set()


def test_a_worker_that_died_of_nothing_to_do_costs_nothing(*, forks: bool) -> None:
    with ProcessEngine(1, forks=forks).session(whole_process) as session:
        session.submit(None)
        [first] = session.take(wait=True)
        os.kill(first, signal.SIGKILL)
        wait_gone([first])
        session.submit(None)
        [second] = session.take(wait=True)
    assert first != second


def test_workers_load_neither_mlx_nor_torch() -> None:
    [names] = all_of(ProcessEngine(1), loaded, [None])
    assert names.isdisjoint({"mlx", "torch", "av", "typer", "rich", "multiprocessing"})


@pytest.mark.parametrize("count", [0, 1, 1000, 300_000, 3_000_000])
def test_arrays_come_over_whole_and_can_be_written_to(count: int) -> None:
    taken = all_of(ProcessEngine(2), zeros, [count] * 12)
    for each in taken:
        assert each["values"].shape == (count,)
        assert (each["values"] == 7).all()
        assert each["grid"].tolist() == [0, 1, 2]
        each["values"][:] = 0


def test_rooms_are_used_again_once_their_arrays_are_gone() -> None:
    with ProcessEngine(1).session(zeros) as session:
        before = 0
        for number in range(30):
            session.submit(2_000_000)
            [taken] = session.take(wait=True)
            del taken
            gc.collect()
            if number == 2:
                before = descriptors()
        assert descriptors() <= before  # what others left open may be closed meanwhile


def test_more_arrays_may_be_kept_than_there_are_rooms() -> None:
    with ProcessEngine(1).session(zeros) as session:
        kept, before = [], descriptors()
        for _ in range(40):
            session.submit(400_000)
            kept += session.take(wait=True)
        assert descriptors() - before < 30
    assert all(np.all(each["values"] == 7) for each in kept)


def test_what_cannot_be_pickled_is_refused_before_anything_starts() -> None:
    with (
        pytest.raises(UsageError, match="cannot be pickled"),
        ProcessEngine(1).session(lambda value: value),
    ):
        pass


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_its_parent(number: int, *, forks: bool) -> None:
    """It holds the interpreter's lock while it hangs, so that no thread of it can look around."""
    code = PARENT.format(seconds=None if forks else 3.0, forks=forks)
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True
    ) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == b"under way\n"
        family = descendants(parent.pid)
        assert family
        parent.send_signal(number)
        parent.wait()
    wait_gone(family)


def test_the_terminals_interrupt_does_not_reach_a_worker() -> None:
    with ProcessEngine(1).session(double) as session:
        session.submit(1)
        session.take(wait=True)
        for pid in children():
            os.kill(pid, signal.SIGINT)
            assert os.getsid(pid) != os.getsid(0)
        session.submit(2)
        assert session.take(wait=True) == [4]


def children() -> set[int]:
    """Processes that this one, and those that it started, have since the test began."""
    return descendants(os.getpid()) - BEFORE


def descendants(pid: int) -> set[int]:
    """By the parents that `ps` tells; a zombie is none any more."""
    rows = [line.split(None, 3) for line in ps("-A", "-o", "pid=,ppid=,stat=,comm=").splitlines()]
    parents = {int(row[0]): int(row[1]) for row in rows if row[2][0] != "Z" and row[3] != "ps"}
    found, more = set[int](), {pid}
    while more:
        more = {each for each, parent in parents.items() if parent in more} - found
        found |= more
    return found


def wait_gone(pids: Iterable[int]) -> None:
    """Return once none of them runs, and none of their threads holds a file of theirs."""
    until(lambda: not any(runs(pid) for pid in pids))


def runs(pid: int) -> bool:
    told = ps("-o", "stat=", "-p", str(pid)).strip()
    return bool(told) and (told[0] != "Z" or "l" in told)  # the first thread may end first


def ps(*words: str) -> str:
    done = subprocess.run(["/bin/ps", *words], capture_output=True, text=True, check=False)
    return done.stdout


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))
