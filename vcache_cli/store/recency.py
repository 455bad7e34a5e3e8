"""Values in the order of their use, with exact accounting. No lock: that is the caller's."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Hashable
from enum import Enum
from typing import Final, Generic, SupportsIndex, TypeVar

__all__ = ["ABSENT", "Absent", "Recency", "Released", "unhashable", "whole_number"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Absent(Enum):
    """Tells a missing value from a value that is None."""

    ABSENT = 0


ABSENT: Final = Absent.ABSENT

Released = list[tuple[K, V, int]]
"""What left a cache: keys, values and their sizes in bytes, oldest first."""


class Recency(Generic[K, V]):
    """Keys from the least to the most recently used. Every method is O(1), amortised.

    What leaves is returned, so that the caller frees it where that holds nobody up.

    Args:
        max_bytes, max_entries: bounds; None for none; 0 keeps nothing.
        idle_seconds: 0 for no clock at all.
        clock: seconds.
    """

    __slots__ = (
        "_sizes_bytes",
        "_used_seconds",
        "clock",
        "idle_seconds",
        "max_bytes",
        "max_entries",
        "total_bytes",
        "values",
    )

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
        self.values: OrderedDict[K, V] = OrderedDict()
        self.total_bytes = 0
        # Apart, as a hit needs neither: at a million keys the memory touched is the time taken.
        self._sizes_bytes: dict[K, int] = {}
        self._used_seconds: dict[K, float] = {}

    def find(self, key: K) -> V | Absent:
        """What is held under `key`, or `ABSENT`; nothing moves.

        Raises:
            TypeError: `key` is not hashable.
        """
        try:
            return self.values.get(key, ABSENT)
        except TypeError as error:
            raise unhashable(key, error) from error

    def takes(self, size_bytes: int) -> bool:
        """True where a value of that size can be held at all."""
        if self.max_entries == 0 or self.max_bytes == 0:
            return False
        return self.max_bytes is None or size_bytes <= self.max_bytes

    def now(self) -> float:
        """The time, where anything idles."""
        return self.clock() if self.idle_seconds else 0.0

    def insert(self, key: K, value: V, size_bytes: int, now: float) -> None:
        """Put `value` at the young end, in place of what was there."""
        self.total_bytes += size_bytes - self._sizes_bytes.get(key, 0)
        self._sizes_bytes[key] = size_bytes
        self.values[key] = value
        self.refresh(key, now)

    def refresh(self, key: K, now: float) -> None:
        """Move `key`, which is held, to the young end and set its clock."""
        self.values.move_to_end(key)
        if self.idle_seconds:
            self._used_seconds[key] = now

    def make_room(self) -> Released[K, V]:
        """Take out the oldest until the bounds hold; the newest stays, as it fits by itself."""
        out = []
        while (self.max_bytes is not None and self.total_bytes > self.max_bytes) or (
            self.max_entries is not None and len(self.values) > self.max_entries
        ):
            out.append(self._take_oldest())
        return out

    def sweep(self, now: float) -> Released[K, V]:
        """Take out what is idle: it stands at the old end."""
        out: Released[K, V] = []
        if self.idle_seconds:
            while self.values:
                if now - self._used_seconds[next(iter(self.values))] < self.idle_seconds:
                    break
                out.append(self._take_oldest())
        return out

    def take(self, key: K) -> V | Absent:
        """Take `key` out; what was there, or `ABSENT`."""
        value = self.find(key)
        if value is not ABSENT:
            del self.values[key]
            self._forget(key)
        return value

    def take_all(self) -> tuple[list[object], int]:
        """Take everything out, in one step; what held it, to be freed, and its bytes."""
        held, freed = [self.values, self._sizes_bytes, self._used_seconds], self.total_bytes
        self.values, self._sizes_bytes, self._used_seconds = OrderedDict(), {}, {}
        self.total_bytes = 0
        return held, freed

    def _take_oldest(self) -> tuple[K, V, int]:
        key, value = self.values.popitem(last=False)
        return key, value, self._forget(key)

    def _forget(self, key: K) -> int:
        size_bytes = self._sizes_bytes.pop(key)
        self.total_bytes -= size_bytes
        if self.idle_seconds:
            del self._used_seconds[key]
        return size_bytes


def unhashable(key: object, error: TypeError) -> TypeError:
    """What to raise where looking `key` up raised `error`."""
    return TypeError(f"`key` must be hashable, got {type(key).__name__}: {error}")


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
