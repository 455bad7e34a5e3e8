"""A station without a cluster: what an actor does with the shards that it is given."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tests.patience import until
from vcache_cli.engines import ray_engine, stations
from vcache_cli.engines.kept import KeptEngine
from vcache_cli.engines.local import ThreadEngine
from vcache_cli.engines.stations import Reply, Station
from vcache_cli.errors import ModelError
from vcache_cli.protocols import Loss


@dataclass
class Doubling:
    """Gives nothing before its input ends, as a pass does with a batch that is not full."""

    stopped: threading.Event = field(default_factory=threading.Event)
    runs: int = 0

    def run(self, values: Iterable[int]) -> Iterator[int]:
        self.runs += 1
        done = []
        for value in values:
            if value < 0:
                raise ModelError("no such number")
            if value == 0:
                raise KeyError(value)
            done.append(value * 2)
            if self.stopped.is_set():
                break
        yield from done

    def stop(self) -> None:
        self.stopped.set()


@dataclass(frozen=True)
class Work:
    opens: bool = True

    def among(self, workers: int) -> Work:
        return self

    @contextmanager
    def opened(self) -> Iterator[Doubling]:
        if not self.opens:
            raise ModelError("no model here")
        yield Doubling()

    def name(self, value: int) -> Hashable:
        return value

    def name_of(self, result: int) -> Hashable:
        return result // 2

    def again(self, result: int) -> int:
        return result

    def lost(self, value: int, loss: Loss, noted: object) -> int:
        return -value


@pytest.fixture(autouse=True)
def _processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_CPU_COUNT", "1")  # a station sets it, for good


def station(*, opens: bool = True) -> Station:
    return Station(pickle.dumps(Work(opens)), 1)


def results(of: Station, count: int) -> list[int]:
    found: list[int] = []

    def all_came() -> bool:
        found.extend(of.take().results)
        return len(found) >= count

    until(all_came)
    return sorted(found)


def end(of: Station) -> Reply[int]:
    """What it says last."""
    replies = []

    def ended() -> bool:
        replies.append(of.take())
        return replies[-1].ended

    until(ended)
    return replies[-1]


def test_shards_that_follow_each_other_all_get_results() -> None:
    there = station()
    assert not there.opened().ended
    for first in (1, 11, 21):
        there.feed(list(range(first, first + 3)))
    assert results(there, 9) == [2, 4, 6, 22, 24, 26, 42, 44, 46]
    there.feed([5])
    assert results(there, 1) == [10]
    there.stop()
    assert end(there).error is None


@pytest.fixture
def _no_lingering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stations, "_LINGER_SECONDS", "no time to add to")  # a TypeError


@pytest.mark.usefixtures("_no_lingering")
@pytest.mark.parametrize("count", [1, 3])
def test_a_station_without_work_says_at_once_what_it_has_done(count: int) -> None:
    there = station()
    there.feed(list(range(1, count + 1)))
    until(lambda: len(there._results) == count)
    assert len(there.take().results) == count


@pytest.mark.usefixtures("_no_lingering")
def test_a_shard_that_is_done_is_told_at_once() -> None:
    there, shard = station(), list(range(1, ray_engine._SHARD + 1))
    there.feed(shard)
    until(lambda: len(there._results) == len(shard))
    there._owed += 1  # the first of another shard, under way
    assert len(there.take().results) == len(shard)


@pytest.mark.usefixtures("_no_lingering")
def test_a_station_with_work_collects_what_it_says() -> None:
    there = station()
    there.feed([1])
    until(lambda: len(there._results) == 1)
    there._owed += 1
    with pytest.raises(TypeError):
        there.take()


def test_what_does_not_open_says_why() -> None:
    reply = station(opens=False).opened()
    assert reply.ended
    assert reply.error
    assert reply.error.message == "no model here"


def test_an_error_of_the_pass_ends_the_station() -> None:
    there = station()
    there.feed([-1])
    assert isinstance(end(there).error, ModelError)


def test_an_error_of_the_program_is_told_with_its_trace() -> None:
    there = station()
    there.feed([0])
    error = end(there).error
    assert error
    assert "KeyError" in error.message
    assert error.exit_code == 1


def test_replies_cross_machines() -> None:
    reply = station(opens=False).opened()
    again = pickle.loads(pickle.dumps(reply))  # noqa: S301  our own
    assert (again.error.message, again.ended) == ("no model here", True)


def test_a_kept_engine_keeps_its_threads() -> None:
    seen: list[threading.Thread] = []

    def note(_: int) -> None:
        seen.append(threading.current_thread())

    with KeptEngine(lambda: ThreadEngine(1)) as engine:
        for _ in range(2):
            with engine.session(note) as session:
                session.submit(1)
                session.take(wait=True)
        assert seen[0] is seen[1]
        assert seen[0].is_alive()
    assert not seen[0].is_alive()
