"""Preprocessed pictures and clips, by what they were made of: `VisionPreprocessCache`."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, SupportsIndex, TypeVar, cast

from vcache_cli.serving.freezing import freeze
from vcache_cli.store.flight import SingleFlight
from vcache_cli.store.lru import ByteLru, LruStats
from vcache_cli.store.recency import ABSENT, Absent, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Self

    from vcache_cli.serving.pixel_store import PixelStore

__all__ = ["PreprocessRuntime", "VisionPreprocessCache"]

T = TypeVar("T")


class PreprocessRuntime(Protocol):
    """The part of a server's configuration that sizes its preprocess caches."""

    @property
    def max_vision_preprocess_cache_bytes(self) -> int:
        """Budget of images."""
        ...

    @property
    def max_video_preprocess_cache_bytes(self) -> int:
        """Budget of videos."""
        ...

    @property
    def max_media_preprocess_cache_idle_seconds(self) -> float:
        """Time after which either is dropped unused; 0 for never."""
        ...


class VisionPreprocessCache(Generic[T]):
    """An LRU of preprocessed payloads, bounded by the bytes that they keep in memory. Any thread.

    Keyed on what identifies the source's encoded bytes: their digest, or any hashable. Payloads
    that `get_or_preprocess` keeps are read-only, as many requests share them. Pickles as empty.

    Args:
        max_bytes: budget; 0 or less disables the cache.
        idle_seconds: a payload unused for so long is dropped; 0 or less for never.
        clock: seconds, never going back.
        store: keeps payloads beyond the process, and has what `vcache warm --stage pixels` wrote;
            asked with keys of ``store.key_of(data)`` only (or their `entry_key` as text).
        single_flight: callers that miss the same key at the same time preprocess it once.

    Raises:
        TypeError: `max_bytes` or `idle_seconds` is no number.
    """

    def __init__(
        self,
        max_bytes: int,
        *,
        idle_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        store: PixelStore | None = None,
        single_flight: bool = False,
    ) -> None:
        disabled = isinstance(max_bytes, int) and max_bytes < 0
        self._lru: ByteLru[Hashable, T] = ByteLru(
            capacity_bytes=0 if disabled else whole_number("max_bytes", max_bytes),
            idle_seconds=_seconds(idle_seconds),
            clock=clock,
        )
        self._store = store
        self._flights: SingleFlight[Hashable, T] | None = SingleFlight() if single_flight else None
        self._lock = threading.Lock()
        self._restored = 0

    def __reduce__(self) -> tuple[object, ...]:
        extras = {"store": self._store, "single_flight": self._flights is not None}
        return _emptied, (type(self), self.max_bytes, self.idle_seconds, extras)

    @classmethod
    def for_images(cls, runtime: PreprocessRuntime) -> Self:
        """The cache of images that a server's configuration asks for."""
        idle_seconds = runtime.max_media_preprocess_cache_idle_seconds
        return cls(runtime.max_vision_preprocess_cache_bytes, idle_seconds=idle_seconds)

    @classmethod
    def for_videos(cls, runtime: PreprocessRuntime) -> Self:
        """The cache of videos, with a budget of its own: one clip is as large as many images."""
        idle_seconds = runtime.max_media_preprocess_cache_idle_seconds
        return cls(runtime.max_video_preprocess_cache_bytes, idle_seconds=idle_seconds)

    # --- looking and keeping -----------------------------------------------------------------

    def get(self, key: Hashable) -> T | None:
        """The payload, now the most recently used; None where there is none. Counts.

        Raises:
            TypeError: `key` is not hashable.
        """
        found = self._find(key)
        return None if found is ABSENT else found

    def put(self, key: Hashable, value: T, nbytes: SupportsIndex) -> None:
        """Keep `value` in place of what was there, and forget the oldest to make room.

        Larger than the whole budget, it is not kept, and what was there stays.

        Args:
            key: see the class.
            value: kept as it is: only `get_or_preprocess` makes payloads read-only.
            nbytes: what it is charged.

        Raises:
            TypeError: `key` is not hashable, or `nbytes` no whole number.
            ValueError: `nbytes` is negative.
        """
        self._lru.put(key, value, whole_number("nbytes", nbytes))
        if self._store is not None and self.enabled:
            self._store.put(key, value)

    def get_or_preprocess(self, key: Hashable | None, preprocess: Callable[[], T]) -> T:
        """The payload, or what `preprocess` gives, made read-only, charged and kept.

        No lock is held while `preprocess` runs: two callers may both run it, unless in single
        flight. A payload larger than the whole budget is read-only, but not kept in memory.

        Args:
            key: None for a source that nothing identifies: like a disabled cache, it runs
                `preprocess` and returns the payload untouched, and counts nothing.
            preprocess: makes the payload; what it raises comes through, and nothing is kept.

        Raises:
            TypeError, ValueError: the payload cannot be made read-only; see `freeze`.
        """
        if key is None or not self.enabled:
            return preprocess()
        found = self._find(key)
        if found is not ABSENT:
            return found
        if self._flights is None:
            return self._make(key, preprocess)
        return self._flights.run(key, lambda: self._make_once(key, preprocess))

    def contains(self, key: Hashable) -> bool:
        """True where a get would hit; moves no order, clock or counter."""
        if key in self._lru:
            return True
        return self._store is not None and self.enabled and self._store.contains(key)

    def collect(self) -> int:
        """Drop from memory what idles; bytes freed."""
        return self._lru.collect()

    def clear(self) -> int:
        """Drop everything from memory, keep the counters; bytes freed."""
        return self._lru.clear()

    def _find(self, key: Hashable) -> T | Absent:
        found = cast("T | Absent", self._lru.get(key, ABSENT))
        if found is not ABSENT or self._store is None or not self.enabled:
            return found
        restored = self._store.get(key)
        if restored is None:
            return ABSENT
        value = cast("T", restored)
        self._lru.put(key, value, freeze(value))
        with self._lock:
            self._restored += 1
        return value

    def _make(self, key: Hashable, preprocess: Callable[[], T]) -> T:
        value = preprocess()
        self._lru.put(key, value, freeze(value))
        if self._store is not None:
            self._store.put(key, value)
        return value

    def _make_once(self, key: Hashable, preprocess: Callable[[], T]) -> T:
        landed = self._lru.peek(key, ABSENT)  # someone may have landed since our miss
        return self._make(key, preprocess) if landed is ABSENT else cast("T", landed)

    # --- state -------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Payloads in memory."""
        return len(self._lru)

    @property
    def enabled(self) -> bool:
        """False where the budget is 0."""
        return self.max_bytes > 0

    @property
    def max_bytes(self) -> int:
        """The budget."""
        return self._lru.capacity_bytes or 0

    @property
    def idle_seconds(self) -> float:
        """Time after which an unused payload is dropped; 0 for never."""
        return self._lru.idle_seconds

    @property
    def total_bytes(self) -> int:
        """What all payloads in memory are charged."""
        return self._lru.total_bytes

    @property
    def hits(self) -> int:
        """Lookups that found a payload, in memory or in the store."""
        return self.stats().hits

    @property
    def misses(self) -> int:
        """Lookups that found none."""
        return self.stats().misses

    @property
    def evictions(self) -> int:
        """Payloads that had to make room; neither idle ones nor replaced ones."""
        return self._lru.evictions

    def stats(self) -> LruStats:
        """The counts now. Takes no lock."""
        restored = self._restored  # first: each of them is among the misses already
        counts = self._lru.stats()
        return replace(counts, hits=counts.hits + restored, misses=counts.misses - restored)


def _seconds(value: object) -> float:
    """`idle_seconds`, 0 where it is less.

    Raises:
        TypeError: it is no number.
    """
    if not isinstance(value, int | float):
        raise TypeError(f"`idle_seconds` is a number of seconds, got {type(value).__name__}")
    return max(0.0, value)


def _emptied(
    kind: type[VisionPreprocessCache[T]],
    max_bytes: int,
    idle_seconds: float,
    extras: dict[str, Any],
) -> VisionPreprocessCache[T]:
    """What a pickled cache is in the other process."""
    return kind(max_bytes, idle_seconds=idle_seconds, **extras)
