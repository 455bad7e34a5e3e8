"""The driver's session, on stations that are there and say nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.engines.test_stations import Work
from vcache_cli.engines import ray_engine
from vcache_cli.engines.ray_cluster import Seat
from vcache_cli.engines.ray_engine import RaySession
from vcache_cli.engines.shards import AHEAD
from vcache_cli.engines.stations import Reply

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(eq=False)
class Method:
    """As one of an actor."""

    remote: Callable[..., object]


@dataclass(eq=False)
class Opened:
    """A reference to the answer that a station can work."""

    by: Actor


@dataclass(eq=False)
class Actor:
    """A station that opens, takes what it is given, and never has a result."""

    late: bool = False
    """It has yet to open."""
    given: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.opened = Method(lambda: Opened(self))
        self.feed = Method(self.given.append)
        self.take = Method(object)


@dataclass(eq=False)
class Ray:
    """As much of the module as a session takes; one that hires in order."""

    actors: list[Actor] = field(default_factory=list)
    late: set[int] = field(default_factory=set)
    """Places of actors that have yet to open when they are hired."""

    def put(self, value: bytes) -> bytes:
        return value

    def remote(self, **_options: object) -> Callable[[type], Method]:
        return lambda _class: Method(self._hired)

    def _hired(self, _work: bytes, _cpus: int) -> Actor:
        self.actors.append(Actor(len(self.actors) in self.late))
        return self.actors[-1]

    def wait(
        self, asked: list[object], *, num_returns: int, timeout: float
    ) -> tuple[list[object], list[object]]:
        told: list[object] = [
            each for each in asked if isinstance(each, Opened) and not each.by.late
        ]
        return told, [each for each in asked if each not in told]

    def get(self, _opened: Opened) -> Reply[int]:
        return Reply()

    @dataclass
    class exceptions:  # noqa: N801  Ray's
        RayError = OSError


@pytest.fixture
def ray() -> Ray:
    return Ray()


@pytest.fixture
def session(ray: Ray, monkeypatch: pytest.MonkeyPatch) -> RaySession[int, int]:
    """On three stations."""
    monkeypatch.setattr(ray_engine, "_POLL_SECONDS", math.inf)
    return opened(ray)


def opened(ray: Ray) -> RaySession[int, int]:
    seats = [Seat("", 1)] * 3
    made: RaySession[int, int] = RaySession(cast("Any", ray), Work(), seats)
    made.open()
    return made


def handed(ray: Ray) -> list[list[int]]:
    """The first inputs of the shards of each station, by their place in the corpus."""
    return [[shard[0] // len(shard) for shard in each.given] for each in ray.actors]


def test_each_node_gets_a_shard_before_one_gets_a_second(
    ray: Ray, session: RaySession[int, int]
) -> None:
    """A corpus of two shards is done by two nodes, not by the first one."""
    for item in range(5 * ray_engine._SHARD):
        session.submit(item)
    session.take(wait=False)
    assert handed(ray) == [[0, 3], [1, 4], [2]]


def test_no_node_gets_more_than_it_needs_to_stay_busy(
    ray: Ray, session: RaySession[int, int]
) -> None:
    for item in range(9 * ray_engine._SHARD):
        if session.submit(item):
            session.take(wait=False)
    assert [len(each) for each in handed(ray)] == [AHEAD] * 3


def test_nodes_that_open_later_find_a_shard_of_their_own(ray: Ray) -> None:
    """Small corpora would be done by whoever opens first."""
    ray.late |= {0, 2}
    session = opened(ray)
    for item in range(4 * ray_engine._SHARD):
        session.submit(item)
    session.take(wait=False)
    assert handed(ray) == [[], [0, 1], []]
    for each in ray.actors:
        each.late = False
    session.take(wait=False)  # hears of it
    session.take(wait=False)
    assert handed(ray) == [[2], [0, 1], [3]]


def test_nodes_are_to_be_looked_at_once_a_shard(session: RaySession[int, int]) -> None:
    """A look at many nodes takes longer than all else that the driver does of an item."""
    due = [session.submit(item) for item in range(3 * ray_engine._SHARD)]
    assert due == ([False] * (ray_engine._SHARD - 1) + [True]) * 3


def test_nodes_are_to_be_looked_at_where_that_was_long_ago(
    session: RaySession[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A walk may find files slowly, and what is done meanwhile is to be told."""
    session.take(wait=False)
    monkeypatch.setattr(ray_engine, "_POLL_SECONDS", -math.inf)
    assert session.submit(0)
