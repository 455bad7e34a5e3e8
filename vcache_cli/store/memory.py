"""Entries in memory, as a tier: bounded by the bytes of their tensors."""

from __future__ import annotations

import time
from collections.abc import Callable

from vcache_cli.entry import Entry
from vcache_cli.store.lru import ByteLru, LruStats

__all__ = ["MemoryTier"]


class MemoryTier:
    """A `Tier` that forgets the least recently used entries. Any thread. Pickles as empty.

    Args:
        capacity_bytes: bound on the bytes of all tensors held; 0 keeps nothing.
        capacity_entries: bound on the number of entries; None for none.
        idle_seconds: an entry unused for so long is dropped; 0 for never.
        clock: seconds, never going back.

    Raises:
        TypeError, ValueError: a bound that is no number, or negative.
    """

    def __init__(
        self,
        capacity_bytes: int,
        *,
        capacity_entries: int | None = None,
        idle_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._entries: ByteLru[str, Entry] = ByteLru(
            capacity_bytes=capacity_bytes,
            capacity_entries=capacity_entries,
            idle_seconds=idle_seconds,
            clock=clock,
        )

    def get(self, key: str) -> Entry | None:
        """The entry, now the most recently used; None where it is not held. Counts."""
        return self._entries.get(key)

    def put(self, entry: Entry) -> int:
        """Keep the entry, replacing what was there; bytes kept, 0 where it is too large.

        Raises:
            TypeError: not an entry.
        """
        if not isinstance(entry, Entry):
            raise TypeError(f"`entry` is an Entry, got {type(entry).__name__}")
        size_bytes = entry.size_bytes
        return size_bytes if self._entries.put(entry.key, entry, size_bytes) else 0

    def contains(self, key: str) -> bool:
        """True where the entry is held; moves no order, clock or counter."""
        return key in self._entries

    def remove(self, key: str) -> bool:
        """Drop the entry; False where it was not held."""
        return self._entries.remove(key) is not None

    def collect(self) -> int:
        """Drop what is idle; bytes freed."""
        return self._entries.collect()

    def clear(self) -> int:
        """Drop everything, keep the counters; bytes freed."""
        return self._entries.clear()

    def __len__(self) -> int:
        """Entries held."""
        return len(self._entries)

    @property
    def total_bytes(self) -> int:
        """Bytes of all tensors held."""
        return self._entries.total_bytes

    @property
    def capacity_bytes(self) -> int | None:
        """Bound on `total_bytes`."""
        return self._entries.capacity_bytes

    def keys(self) -> list[str]:
        """Keys held, least recently used first."""
        return self._entries.keys()

    def stats(self) -> LruStats:
        """The counts now. Takes no lock."""
        return self._entries.stats()
