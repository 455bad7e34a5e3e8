"""One LRU for every cache here: bounded by bytes, exact in its counts, O(1) in each operation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, SupportsIndex, TypeVar, cast

from vcache_cli.store.flight import SingleFlight
from vcache_cli.store.recency import ABSENT, Recency, Released, unhashable, whole_number

__all__ = ["ByteLru", "LruStats"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class LruStats:
    """What a cache has done and what it holds."""

    hits: int
    misses: int
    evictions: int
    """Entries that had to make room; neither idle ones nor replaced ones."""
    size_bytes: int
    capacity_bytes: int | None
    """None where bytes are not bounded."""


class ByteLru(Generic[K, V]):
    """A mapping that forgets the least recently used. Any thread.

    Values leave after the lock is released: freeing gigabytes stops nobody else. Nothing runs in
    the background: what is idle is found by the operations on others. Pickles as empty, with its
    bounds, but with the real clock and without `on_evict`.

    Args:
        capacity_bytes: bound on the sum of the sizes; None for none; 0 keeps nothing.
        capacity_entries: bound on the number of entries; None for none; 0 keeps nothing.
        idle_seconds: an entry unused for so long is dropped; 0 for never.
        clock: seconds, never going back; asked under the lock, and only where something idles.
        on_evict: called with key, value and size of each entry dropped for room or for idleness,
            outside the lock, in the thread whose operation dropped it.

    Raises:
        TypeError, ValueError: a bound that is no number, or negative.
    """

    __slots__ = (
        "__weakref__",
        "_evictions",
        "_flights",
        "_hits",
        "_lock",
        "_misses",
        "_on_evict",
        "_order",
    )

    def __init__(
        self,
        *,
        capacity_bytes: int | None,
        capacity_entries: int | None = None,
        idle_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        on_evict: Callable[[K, V, int], object] | None = None,
    ) -> None:
        if not idle_seconds >= 0.0:  # refuses NaN too
            raise ValueError(f"`idle_seconds` is 0 or more, got {idle_seconds!r}")
        self._order: Recency[K, V] = Recency(
            None if capacity_bytes is None else whole_number("capacity_bytes", capacity_bytes),
            None
            if capacity_entries is None
            else whole_number("capacity_entries", capacity_entries),
            float(idle_seconds),
            clock,
        )
        self._on_evict = on_evict
        # Re-entrant: a finalizer or a signal handler may come back in the same thread.
        self._lock = threading.RLock()
        self._flights: SingleFlight[K, V] = SingleFlight()
        self._hits = self._misses = self._evictions = 0

    def __reduce__(self) -> tuple[object, ...]:
        bounds = (self.capacity_bytes, self.capacity_entries, self.idle_seconds)
        return _empty, (type(self), *bounds)

    # --- looking -----------------------------------------------------------------------------

    def get(self, key: K, default: D | None = None) -> V | D | None:
        """The value, now the most recently used; `default` where there is none. Counts.

        What was wanted is refreshed before the idle ones are dropped, however late it is.

        Raises:
            TypeError: `key` is not hashable.
        """
        lock = self._lock
        lock.acquire()  # `with` takes as long as all the rest of a hit
        try:
            order = self._order
            try:
                value = order.values.get(key, ABSENT)
            except TypeError as error:
                raise unhashable(key, error) from error
            if value is ABSENT:
                self._misses += 1
                found: V | D | None = default
            else:
                order.values.move_to_end(key)
                self._hits += 1
                found = value
            if not order.idle_seconds:
                return found
            dropped = self._sweep_after(key, found=value is not ABSENT)
        finally:
            lock.release()
        self._tell(dropped)
        return found

    def peek(self, key: K, default: D | None = None) -> V | D | None:
        """The value, or `default`; moves no order, clock or counter."""
        with self._lock:
            value = self._order.find(key)
        return default if value is ABSENT else value

    def __contains__(self, key: object) -> bool:
        """True where `peek` finds something."""
        with self._lock:
            return self._order.find(cast("K", key)) is not ABSENT

    def __len__(self) -> int:
        """Entries held."""
        return len(self._order.values)

    def keys(self) -> list[K]:
        """The keys, least recently used first; a copy."""
        with self._lock:
            return list(self._order.values)

    # --- changing ----------------------------------------------------------------------------

    def put(self, key: K, value: V, size_bytes: SupportsIndex) -> bool:
        """Keep `value`, most recently used, in place of what was there; make room for it.

        Returns:
            False where it is larger than the whole cache: it is not kept, nothing makes room,
            and an older value of `key` stays.

        Raises:
            TypeError: `key` is not hashable, or `size_bytes` no whole number.
            ValueError: `size_bytes` is negative.
        """
        order = self._order
        size = whole_number("size_bytes", size_bytes)
        with self._lock:
            old = order.find(key)
            now = order.now()
            dropped = order.sweep(now)
            fits = order.takes(size)
            if fits:
                order.insert(key, value, size, now)
                crowded = order.make_room()
                self._evictions += len(crowded)
                dropped += crowded
        self._tell(dropped)
        del old  # kept alive until here, where no lock is held
        return fits

    def touch(self, key: K) -> bool:
        """Make `key` the most recently used, count nothing; False where it is not held."""
        with self._lock:
            found = self._order.find(key) is not ABSENT
            dropped = self._sweep_after(key, found=found)
        self._tell(dropped)
        return found

    def remove(self, key: K) -> V | None:
        """Take `key` out; its value, or None. No eviction."""
        with self._lock:
            value = self._order.take(key)
        return None if value is ABSENT else value

    def clear(self) -> int:
        """Drop everything, keep the counters; bytes freed."""
        with self._lock:
            held, freed = self._order.take_all()
        del held  # outside the lock
        return freed

    def collect(self) -> int:
        """Drop what is idle; bytes freed."""
        with self._lock:
            dropped = self._order.sweep(self._order.now())
        self._tell(dropped)
        return sum(size_bytes for _, _, size_bytes in dropped)

    def get_or_compute(self, key: K, compute: Callable[[], tuple[V, int]]) -> V:
        """The value, or what `compute` gives, in one flight: those who ask meanwhile share it.

        Args:
            key: counted as one lookup.
            compute: value and size in bytes. No lock is held while it runs. What it raises
                reaches everyone who waited, and nothing is kept.
        """
        found = self.get(key, ABSENT)
        if found is not ABSENT:
            return cast("V", found)
        return self._flights.run(key, lambda: self._compute(key, compute))

    def _compute(self, key: K, compute: Callable[[], tuple[V, int]]) -> V:
        landed = self.peek(key, ABSENT)  # another leader may have landed since our miss
        if landed is not ABSENT:
            return cast("V", landed)
        value, size_bytes = compute()
        self.put(key, value, size_bytes)
        return value

    def _sweep_after(self, key: K, *, found: bool) -> Released[K, V]:
        """Refresh `key` where it was found, then drop what is idle. Under the lock."""
        now = self._order.now()
        if found:
            self._order.refresh(key, now)
        return self._order.sweep(now)

    def _tell(self, dropped: Released[K, V]) -> None:
        if self._on_evict is not None:
            for key, value, size_bytes in dropped:
                self._on_evict(key, value, size_bytes)

    # --- counts ------------------------------------------------------------------------------

    @property
    def capacity_bytes(self) -> int | None:
        """Bound on `total_bytes`; None for none."""
        return self._order.max_bytes

    @property
    def capacity_entries(self) -> int | None:
        """Bound on the number of entries; None for none."""
        return self._order.max_entries

    @property
    def idle_seconds(self) -> float:
        """Time after which an unused entry is dropped; 0 for never."""
        return self._order.idle_seconds

    @property
    def total_bytes(self) -> int:
        """Sum of the sizes of what is held."""
        return self._order.total_bytes

    @property
    def hits(self) -> int:
        """Lookups that found something."""
        return self._hits

    @property
    def misses(self) -> int:
        """Lookups that found nothing."""
        return self._misses

    @property
    def evictions(self) -> int:
        """Entries that had to make room."""
        return self._evictions

    def stats(self) -> LruStats:
        """The counts now. Takes no lock."""
        bytes_now, bytes_bound = self._order.total_bytes, self._order.max_bytes
        return LruStats(self._hits, self._misses, self._evictions, bytes_now, bytes_bound)


def _empty(
    kind: type[ByteLru[K, V]],
    capacity_bytes: int | None,
    capacity_entries: int | None,
    idle_seconds: float,
) -> ByteLru[K, V]:
    """What a pickled cache is in the other process."""
    return kind(
        capacity_bytes=capacity_bytes, capacity_entries=capacity_entries, idle_seconds=idle_seconds
    )
