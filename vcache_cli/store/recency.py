"""Values in the order of their use, with exact accounting. No lock: that is the caller's."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, SupportsIndex, TypeVar

__all__ = ["Held", "Recency", "whole_number"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Held(Generic[V]):
    """A value in a cache."""

    __slots__ = ("size_bytes", "used_seconds", "value")

    def __init__(self, value: V, size_bytes: int) -> None:
        self.value = value
        self.size_bytes = size_bytes
        self.used_seconds = 0.0


class Recency(Generic[K, V]):
    """Keys from the least to the most recently used. Every method is O(1), amortised.

    What leaves is returned, so that the caller frees it where that holds nobody up.

    Args:
        max_bytes, max_entries: bounds; None for none; 0 keeps nothing.
        idle_seconds: 0 for no clock at all.
        clock: seconds.
    """

    __slots__ = ("clock", "entries", "idle_seconds", "max_bytes", "max_entries", "total_bytes")

    def __init__(
        self,
        max_bytes: int | None,
        max_entries: int | None,
        idle_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self.max_bytes = max_bytes
        self.max_entries = max_entries
        self.idle_seconds = idle_seconds
        self.clock = clock
        self.entries: OrderedDict[K, Held[V]] = OrderedDict()
        self.total_bytes = 0

    def find(self, key: K) -> Held[V] | None:
        """What is held under `key`; nothing moves.

        Raises:
            TypeError: `key` is not hashable.
        """
        try:
            return self.entries.get(key)
        except TypeError as error:
            raise TypeError(f"`key` must be hashable, got {type(key).__name__}: {error}") from error

    def takes(self, size_bytes: int) -> bool:
        """True where a value of that size can be held at all."""
        if self.max_entries == 0 or self.max_bytes == 0:
            return False
        return self.max_bytes is None or size_bytes <= self.max_bytes

    def insert(self, key: K, held: Held[V]) -> Held[V] | None:
        """Put `held` at the young end; what it replaced."""
        if self.idle_seconds:
            held.used_seconds = self.clock()
        old = self.entries.get(key)
        self.entries[key] = held
        self.total_bytes += held.size_bytes
        if old is not None:
            self.entries.move_to_end(key)
            self.total_bytes -= old.size_bytes
        return old

    def make_room(self) -> list[tuple[K, Held[V]]]:
        """Take out the oldest until the bounds hold; the newest stays, as it fits by itself."""
        out = []
        while (self.max_bytes is not None and self.total_bytes > self.max_bytes) or (
            self.max_entries is not None and len(self.entries) > self.max_entries
        ):
            out.append(self._take_oldest())
        return out

    def sweep(self, wanted: Held[V] | None = None) -> list[tuple[K, Held[V]]]:
        """Set the clock of `wanted`, then take out what is idle: it stands at the old end."""
        if not self.idle_seconds:
            return []
        now = self.clock()
        if wanted is not None:
            wanted.used_seconds = now
        out = []
        while self.entries:
            oldest = next(iter(self.entries.values()))
            if now - oldest.used_seconds < self.idle_seconds:
                break
            out.append(self._take_oldest())
        return out

    def take(self, key: K) -> Held[V] | None:
        """Take `key` out; what was there."""
        held = self.find(key)
        if held is not None:
            del self.entries[key]
            self.total_bytes -= held.size_bytes
        return held

    def take_all(self) -> tuple[OrderedDict[K, Held[V]], int]:
        """Take everything out, in one step; entries and their bytes."""
        entries, self.entries = self.entries, OrderedDict()
        freed, self.total_bytes = self.total_bytes, 0
        return entries, freed

    def _take_oldest(self) -> tuple[K, Held[V]]:
        key, held = self.entries.popitem(last=False)
        self.total_bytes -= held.size_bytes
        return key, held


def whole_number(name: str, value: SupportsIndex) -> int:
    """`value` as an int of 0 or more; `name` is what errors call it.

    Raises:
        TypeError: it is no whole number.
        ValueError: it is negative.
    """
    try:
        number = operator.index(value)
    except TypeError as error:
        raise TypeError(f"`{name}` is a whole number, got {type(value).__name__}") from error
    if number < 0:
        raise ValueError(f"`{name}` is 0 or more, got {number}")
    return number
