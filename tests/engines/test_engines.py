"""What every engine keeps, threads and processes alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines.deeds import double, fault, slow, until_there
from vcache_cli.engines import ProcessEngine, ThreadEngine
from vcache_cli.protocols import Engine

Make = Callable[[int, int], Engine]


def threads(workers: int, ahead: int) -> Engine:
    return ThreadEngine(workers, ahead=ahead)


def forks(workers: int, ahead: int) -> Engine:
    return ProcessEngine(workers, ahead=ahead, forks=True)


def interpreters(workers: int, ahead: int) -> Engine:
    return ProcessEngine(workers, ahead=ahead, forks=False)


@pytest.fixture(params=[threads, forks, interpreters])
def make(request: pytest.FixtureRequest) -> Make:
    """An engine of so many workers, with so many inputs ahead."""
    made: Make = request.param
    return made


def test_every_input_gives_one_result(make: Make) -> None:
    taken: list[int] = []
    with make(3, 2).session(double) as session:
        for value in range(100):
            session.submit(value)
            while session.full:
                taken += session.take(wait=True)
        while session.pending:
            taken += session.take(wait=True)
    assert sorted(taken) == [value * 2 for value in range(100)]


def test_the_number_in_flight_is_bounded(make: Make) -> None:
    with make(2, 3).session(double) as session:
        for value in range(5):
            assert not session.full
            session.submit(value)
        assert session.full


def test_taking_without_waiting_gives_only_what_is_there(make: Make, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with make(1, 2).session(until_there) as session:
        session.submit(str(gate))
        assert session.take(wait=False) == []
        gate.touch()
        assert session.take(wait=True) == [True]
        assert session.take(wait=True) == []


def test_an_exception_of_the_work_reaches_the_caller(make: Make) -> None:
    with make(1, 2).session(fault) as session:
        session.submit(1)
        with pytest.raises(KeyError):
            session.take(wait=True)


def test_leaving_early_drops_what_has_not_started(make: Make, tmp_path: Path) -> None:
    with make(1, 400).session(slow) as session:
        for _ in range(400):
            session.submit(str(tmp_path / "started"))
    started = tmp_path / "started"
    assert not started.exists() or started.stat().st_size < 400  # all of them take 20 seconds
