"""Which inputs are where: cut into shards, handed out, done or lost. Values only, no cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

__all__ = ["AHEAD", "Shard", "Shards"]

In = TypeVar("In")

AHEAD: Final = 2
"""Shards that a worker has at once: the next one is there when one ends."""
_MOST_LOSSES: Final = 3
"""A single input whose worker was lost this often is given up."""


@dataclass(slots=True, eq=False)
class Shard(Generic[In]):
    """Consecutive inputs, handed to one worker at a time."""

    number: int
    """Which range of the corpus it was cut from, from 0."""
    waiting: deque[tuple[Hashable, In]]
    """Inputs without a result, each under its name."""
    losses: int = 0
    """Workers that were lost while they had it."""

    @property
    def values(self) -> list[In]:
        """The inputs, in order."""
        return [value for _, value in self.waiting]

    def drop(self, name: Hashable) -> bool:
        """Take out the first input of that name; False where there is none."""
        for place, (each, _) in enumerate(self.waiting):
            if each == name:
                del self.waiting[place]
                return True
        return False

    def parts(self) -> list[Shard[In]]:
        """Itself after one loss, its halves after more: until what kills stands alone."""
        if self.losses < 2 or len(self.waiting) < 2:
            return [self]
        pairs, middle = list(self.waiting), len(self.waiting) // 2
        halves = pairs[:middle], pairs[middle:]
        return [Shard(self.number, deque(half), self.losses) for half in halves]


@dataclass(slots=True, eq=False)
class Shards(Generic[In]):
    """The shards of a run. One thread.

    Args:
        size: inputs of each, cut as they come: by their order alone.
    """

    size: int
    _open: list[tuple[Hashable, In]] = field(default_factory=list)
    _ready: deque[Shard[In]] = field(default_factory=deque)
    _again: deque[Shard[In]] = field(default_factory=deque)
    _held: dict[int, list[Shard[In]]] = field(default_factory=dict)
    _cut: int = 0
    pending: int = 0
    """Inputs without a result."""

    def add(self, name: Hashable, value: In) -> bool:
        """Take an input, under the name by which `done` tells it; True where a shard is full."""
        self.pending += 1
        self._open.append((name, value))
        if len(self._open) < self.size:
            return False
        self._close()
        return True

    @property
    def ready(self) -> int:
        """Full shards that nobody has had."""
        return len(self._ready)

    def _close(self) -> None:
        self._ready.append(Shard(self._cut, deque(self._open)))
        self._cut += 1
        self._open = []

    def give(self, worker: int, *, most: int = AHEAD, flush: bool = False) -> Shard[In] | None:
        """A shard for a worker, which has it from now on; None where it is to have no more.

        What was lost once goes alone to a worker: nothing beside it is lost with it again.

        Args:
            worker: its number.
            most: shards that it may have then.
            flush: with nothing else to do, cut one that is not full.
        """
        held = self._held.setdefault(worker, [])
        if len(held) >= most or any(each.losses for each in held):
            return None
        if self._again and not held:
            return self._hand(self._again.popleft(), held)
        if flush and self._open and not self._ready and not held:
            self._close()
        return self._hand(self._ready.popleft(), held) if self._ready else None

    def _hand(self, shard: Shard[In], held: list[Shard[In]]) -> Shard[In]:
        held.append(shard)
        return shard

    def done(self, worker: int, name: Hashable) -> bool:
        """Note the result of an input; False where none of that name waits at the worker."""
        held = self._held.get(worker, [])
        for shard in held:
            if shard.drop(name):
                self.pending -= 1
                if not shard.waiting:
                    held.remove(shard)
                return True
        return False

    def is_retried(self, worker: int) -> bool:
        """True where the worker has what another one had before."""
        return any(each.losses for each in self._held.get(worker, []))

    def lose(self, worker: int) -> list[In]:
        """Take back what a worker had; the inputs that are given up, which need no result more."""
        given_up: list[In] = []
        for shard in self._held.pop(worker, []):
            shard.losses += 1
            if len(shard.waiting) == 1 and shard.losses >= _MOST_LOSSES:
                given_up.extend(shard.values)
            else:
                self._again.extend(shard.parts())
        self.pending -= len(given_up)
        return given_up

    def drop_all(self) -> None:
        """Forget what no worker has."""
        waiting = sum(len(each.waiting) for each in (*self._ready, *self._again))
        self.pending -= waiting + len(self._open)
        self._open, self._ready, self._again = [], deque(), deque()
