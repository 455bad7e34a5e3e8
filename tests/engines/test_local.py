from __future__ import annotations

import threading
import time

import pytest

from vcache_cli.engines import ThreadEngine


def double(value: int) -> int:
    return value * 2


def test_every_input_gives_one_result() -> None:
    taken: list[int] = []
    with ThreadEngine(3).session(double) as session:
        for value in range(100):
            session.submit(value)
            while session.full:
                taken += session.take(wait=True)
        while session.pending:
            taken += session.take(wait=True)
    assert sorted(taken) == [value * 2 for value in range(100)]


def test_the_number_in_flight_is_bounded() -> None:
    with ThreadEngine(2, ahead=3).session(double) as session:
        for value in range(5):
            assert not session.full
            session.submit(value)
        assert session.full


def test_taking_without_waiting_gives_only_what_is_there() -> None:
    gate = threading.Event()

    def work(_value: int) -> bool:
        return gate.wait(10)

    with ThreadEngine(1).session(work) as session:
        session.submit(1)
        assert session.take(wait=False) == []
        gate.set()
        assert session.take(wait=True) == [True]
        assert session.take(wait=True) == []


def test_an_exception_of_the_work_reaches_the_caller() -> None:
    def work(_value: int) -> int:
        raise KeyError("a fault of ours")

    with ThreadEngine(1).session(work) as session:
        session.submit(1)
        with pytest.raises(KeyError):
            session.take(wait=True)


def test_leaving_early_drops_what_has_not_started() -> None:
    started: list[int] = []

    def work(value: int) -> None:
        started.append(value)
        time.sleep(0.05)

    with ThreadEngine(1, ahead=50).session(work) as session:
        for value in range(50):
            session.submit(value)
    assert len(started) < 10
