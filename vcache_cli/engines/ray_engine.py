"""Shards on the machines of a Ray cluster: one station on each seat, in an actor.

`RAY.md` says why the work is divided like this.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from vcache_cli.engines.ray_cluster import Seat, as_options, check_nodes, joined, plan_seats
from vcache_cli.engines.shards import AHEAD, Shards
from vcache_cli.engines.stations import Reply, Station, StationWork
from vcache_cli.errors import ModelError, VcacheError
from vcache_cli.protocols import Loss

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

__all__ = ["RayEngine", "RaySession"]

In = TypeVar("In")
Out = TypeVar("Out")

_SHARD: Final = 32
"""Inputs of a shard: a loss costs few, and a second of work is many calls' worth."""
_POLL_SECONDS: Final = 0.5
_START_SECONDS: Final = 300.0
"""In which the first station has to open: its model is loaded there."""
_END_SECONDS: Final = 10.0
_MOST_LOSSES: Final = 8
"""Stations lost in a row without a result between."""


@dataclass(slots=True, eq=False)
class _Member:
    """A station, as it is seen from here."""

    number: int
    seat: Seat
    actor: Any
    asked: Any
    """The answer that is awaited."""
    opened: bool = False


@dataclass(slots=True, eq=False)
class RaySession(Generic[In, Out]):
    """Work under way on a cluster. One thread, but for `stop`.

    Results come in any order, one for each input, however many workers are lost.
    """

    ray: ModuleType
    work: StationWork[In, Out]
    seats: list[Seat]
    error: VcacheError | None = None
    """What ended a station early; the others then take nothing more."""
    _shards: Shards[In] = field(default_factory=lambda: Shards(_SHARD))
    _crew: dict[int, _Member] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)
    _lost_in_a_row: int = 0
    _begun: float = field(default_factory=time.monotonic)
    _looked: float = 0.0
    _stopping: bool = False
    _told: bool = False
    _packed: Any = None
    """The work, where all stations can have it."""
    retried: int = 0
    """Inputs that were handed out again, since who had them was lost."""

    def open(self) -> None:
        """Start a station on every seat; return once one of them can work.

        Raises:
            ModelError: none can.
            VcacheError: what the first of them ran into.
        """
        for seat in self.seats:
            self._hire(seat)
        while not any(each.opened for each in self._crew.values()):
            self._turn()
            if self.error:
                raise self.error
            if time.monotonic() - self._begun > _START_SECONDS:
                raise ModelError(
                    f"no worker of the Ray cluster could start in {_START_SECONDS:g} s",
                    hint="see `ray status` for what is busy, and ask for less with"
                    " `--encoder-resources`",
                )

    @property
    def full(self) -> bool:
        """True where every worker has shards waiting for it."""
        return self._shards.pending >= (AHEAD + 1) * _SHARD * len(self.seats)

    @property
    def pending(self) -> int:
        """Inputs without a result; once stopped, stations that have not ended."""
        return len(self._crew) if self._told else self._shards.pending

    def submit(self, value: In) -> bool:
        """Put the input into a shard; it is handed out when that is full, or nothing else is.

        True where it is time to `take`: a shard is full, or the last look was long ago.
        """
        full = self._shards.add(self.work.name(value), value)
        return full or time.monotonic() - self._looked > _POLL_SECONDS

    def stop(self) -> None:
        """Hand out nothing more; what is in flight is finished. From any thread or a signal."""
        self._stopping = True

    def take(self, *, wait: bool) -> list[Out]:
        """Results that are there; with `wait`, some or none after a while.

        Raises:
            ModelError: workers are lost one after the other.
        """
        return self._turn(wait=wait)

    def _turn(self, *, wait: bool = True) -> list[Out]:
        """Hand out what can be, and hear whoever has something to say."""
        if self._stopping and not self._told:
            self._tell_stop()
        self._looked = time.monotonic()
        self._hand_out(flush=wait)
        asked = {each.asked: each for each in self._crew.values()}
        if not asked:
            return []
        seconds = _POLL_SECONDS if wait else 0
        ready, _ = self.ray.wait(list(asked), num_returns=len(asked), timeout=0)
        if not ready and wait:
            ready, _ = self.ray.wait(list(asked), num_returns=1, timeout=seconds)
        return [result for ref in ready for result in self._hear(asked[ref])]

    def _hire(self, seat: Seat) -> None:
        if self._packed is None:  # put once: it may be large, and stations many
            self._packed = self.ray.put(pickle.dumps(self.work, protocol=5))
        number = next(self._numbers)
        options = {**as_options(seat), "max_concurrency": 4, "max_restarts": 0}
        actor = self.ray.remote(**options)(Station).remote(self._packed, seat.cpus)
        self._crew[number] = _Member(number, seat, actor, actor.opened.remote())

    def _hand_out(self, *, flush: bool) -> None:
        """The first shard of each before the second of any, be it of one that has yet to open."""
        members = list(self._crew.values())
        late = sum(not each.opened for each in members)
        for most in range(1, AHEAD + 1):
            for member in members:
                if most == 1 or self._shards.ready > late:
                    self._feed(member, most=most, flush=flush)

    def _feed(self, member: _Member, *, most: int, flush: bool) -> None:
        if member.opened and not self._stopping:
            shard = self._shards.give(member.number, most=most, flush=flush)
            if shard is None:
                return
            self.retried += len(shard.waiting) if shard.losses else 0
            member.actor.feed.remote(shard.values)

    def _hear(self, member: _Member) -> list[Out]:
        try:
            reply: Reply[Out] = self.ray.get(member.asked)
        except self.ray.exceptions.RayError as error:
            return self._lose(member, error)
        if reply.ended:
            del self._crew[member.number]
        else:
            member.opened = True
            member.asked = member.actor.take.remote()
        if reply.error:
            self.error = self.error or reply.error
            self.stop()
        if reply.results:
            self._lost_in_a_row = 0
        return self._accepted(member, reply.results)

    def _accepted(self, member: _Member, results: list[Out]) -> list[Out]:
        """Those that were still awaited."""
        found: list[Out] = []
        for result in results:
            retried = self._shards.is_retried(member.number)
            if self._shards.done(member.number, self.work.name_of(result)):
                found.append(self.work.again(result) if retried else result)
        return found

    def _lose(self, member: _Member, error: Exception) -> list[Out]:
        """A station is gone: another takes its seat, and what it had.

        Raises:
            ModelError: that happens again and again.
        """
        del self._crew[member.number]
        with suppress(self.ray.exceptions.RayError):
            self.ray.kill(member.actor)
        reason = str(error).strip().partition("\n")[0]
        self._lost_in_a_row += 1
        if self._lost_in_a_row > _MOST_LOSSES:
            raise ModelError(
                f"workers of the Ray cluster are lost one after the other: {reason}",
                hint="see their logs (`ray logs cluster`); finished work is kept",
            )
        given_up = self._shards.lose(member.number)
        if not self._stopping:
            self._hire(replace(member.seat, node=""))  # that node may be gone
        loss = Loss("crashed", f"several workers were lost with it: {reason}", 0.0, outside=True)
        return [self.work.lost(value, loss, None) for value in given_up]

    def _tell_stop(self) -> None:
        self._told = True
        self._shards.drop_all()
        for member in list(self._crew.values()):
            if member.opened:
                member.actor.stop.remote()
            else:
                self._dismiss(member)

    def _dismiss(self, member: _Member) -> None:
        self._crew.pop(member.number, None)
        with suppress(self.ray.exceptions.RayError):
            self.ray.kill(member.actor)

    def close(self, *, patiently: bool) -> None:
        """End all stations: with patience, once they have closed what they opened."""
        self.stop()
        until = time.monotonic() + (_END_SECONDS if patiently else 0)
        while self._crew and time.monotonic() < until:
            self._turn()
        for member in list(self._crew.values()):
            self._dismiss(member)


@dataclass(frozen=True, slots=True)
class RayEngine:
    """Work on the seats of a Ray cluster.

    Args:
        address: of the cluster; ``auto`` finds the one of this machine.
        resources: what a seat takes; None is all CPUs of a node, or a GPU with its share.
    """

    address: str = "auto"
    resources: Mapping[str, float] | None = None

    @contextmanager
    def session(self, work: StationWork[In, Out]) -> Iterator[RaySession[In, Out]]:
        """Join the cluster, and open the work on every seat of it.

        Raises:
            ModelError: no Ray, no cluster, no room, or other versions on a node.
            VcacheError: what a station ran into as it opened.
        """
        with joined(self.address) as ray:
            seats = plan_seats(check_nodes(ray), self.resources)
            if not seats:
                raise ModelError(
                    "no node of the Ray cluster has room for an encoder",
                    hint="see `ray status`, and ask for less with `--encoder-resources`",
                )
            session = RaySession(ray, work.among(len(seats)), seats)
            patiently = False
            try:
                session.open()
                yield session
                patiently = True
            finally:
                session.close(patiently=patiently)
