"""P14: hit, miss and put of the LRU at a million entries, and of entries on a disk.

Peers: `cachetools.LRUCache` under a lock, a plain dict (which forgets nothing and counts
nothing), and for the disk `diskcache.Cache`. VCACHE_BENCH_ENTRIES changes the million.
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cachetools
import diskcache
import numpy as np

from tests.bench.bench_get import by_turns, make_entry
from tests.bench.measure import compare
from vcache_cli.store import ByteLru, DiskStore, MemoryTier, StoreRoot, TieredCache, create_meta
from vcache_cli.targets import NativeLayout

ENTRIES = int(os.environ.get("VCACHE_BENCH_ENTRIES", "1000000"))
BATCH = 1000
SIZE_BYTES = 1000
VALUE = object()

Batch = Callable[[list[str]], object]


def names(first: int, count: int) -> list[str]:
    """Keys as long as digests are."""
    return [f"{number:064x}" for number in range(first, first + count)]


class Peer:
    """What people write today: cachetools, a lock and two counters around it."""

    def __init__(self) -> None:
        self.cache: Any = cachetools.LRUCache(ENTRIES * SIZE_BYTES, getsizeof=lambda _: SIZE_BYTES)
        self.lock = threading.Lock()

    def get(self, keys: list[str]) -> None:
        """Look each key up."""
        cache, lock = self.cache, self.lock
        for key in keys:
            with lock:
                cache.get(key)

    def hit(self, keys: list[str]) -> None:
        """Look each key up that is there: its fastest way."""
        cache, lock = self.cache, self.lock
        for key in keys:
            with lock:
                cache[key]

    def put(self, keys: list[str]) -> None:
        """Put each key, which evicts another."""
        cache, lock = self.cache, self.lock
        for key in keys:
            with lock:
                cache[key] = VALUE


class Ours:
    """The same work with `ByteLru`."""

    def __init__(self) -> None:
        self.cache: ByteLru[str, object] = ByteLru(capacity_bytes=ENTRIES * SIZE_BYTES)

    def get(self, keys: list[str]) -> None:
        """Look each key up; it counts hits and misses."""
        get = self.cache.get
        for key in keys:
            get(key)

    def put(self, keys: list[str]) -> None:
        """Put each key, which evicts another."""
        put = self.cache.put
        for key in keys:
            put(key, VALUE, SIZE_BYTES)


class Plain:
    """A dict: the floor."""

    def __init__(self) -> None:
        self.cache: dict[str, object] = {}

    def get(self, keys: list[str]) -> None:
        """Look each key up."""
        get = self.cache.get
        for key in keys:
            get(key)

    def put(self, keys: list[str]) -> None:
        """Put each key."""
        cache = self.cache
        for key in keys:
            cache[key] = VALUE


def drawn(keys: list[str], chance: random.Random, work: Batch) -> Callable[[], object]:
    """Work on a batch of `keys`, drawn ahead and anew each time; its strings are warm for all."""
    batches = [chance.choices(keys, k=BATCH) for _ in range(64)]
    position = 0

    def turn() -> object:
        nonlocal position
        position = (position + 1) % len(batches)
        return work(batches[position])

    return turn


def fresh(first: int, work: Batch) -> Callable[[], object]:
    """Work on a batch of keys that nobody has seen."""
    batches = iter([names(first + BATCH * number, BATCH) for number in range(240)])
    return lambda: work(next(batches))


def in_memory() -> None:
    """Figures are for a thousand operations."""
    keys = names(0, ENTRIES)
    ours, peer, plain = Ours(), Peer(), Plain()
    for cache in (ours, peer, plain):
        cache.put(keys)
    chance = random.Random(14)
    absent = names(10 * ENTRIES, 10 * BATCH)
    hit = drawn(keys, chance, ours.get)
    compare("P14 1000 hits / cachetools", hit, drawn(keys, chance, peer.hit))
    compare("P14 1000 hits / dict", hit, drawn(keys, chance, plain.get))
    miss = drawn(absent, chance, ours.get)
    compare("P14 1000 misses / cachetools", miss, drawn(absent, chance, peer.get))
    compare("P14 1000 misses / dict", miss, drawn(absent, chance, plain.get))
    compare(
        "P14 1000 puts / cachetools",
        fresh(20 * ENTRIES, ours.put),
        fresh(20 * ENTRIES, peer.put),
    )
    compare("P14 1000 puts / dict", fresh(30 * ENTRIES, ours.put), fresh(30 * ENTRIES, plain.put))


def on_disk(folder: Path) -> None:
    """Entries of 1 MiB behind a memory too small for them, each get another one."""
    root = StoreRoot(
        folder / "store", NativeLayout(), create_meta(folder / "store", target="native")
    )
    entries = [make_entry(number, 1) for number in range(64)]
    arrays = {entry.key: entry.numpy("features") for entry in entries}
    keys = list(arrays)
    with DiskStore(root, mode="w") as disk, diskcache.Cache(str(folder / "peer")) as peer:
        tiers = TieredCache(MemoryTier(1 << 20), disk)
        of_key = {entry.key: entry for entry in entries}

        def ours_put(key: str) -> object:
            return tiers.put(of_key[key])

        def peer_put(key: str) -> object:
            return peer.set(key, arrays[key])

        rounds = len(keys)
        compare(
            "P14 put 1 MiB / diskcache",
            by_turns(keys, ours_put),
            by_turns(keys, peer_put),
            rounds=rounds,
        )

        def ours_get(key: str) -> object:
            entry = tiers.get(key)
            assert entry is not None
            return entry.numpy("features")

        def peer_get(key: str) -> object:
            array = peer[key]
            assert isinstance(array, np.ndarray)
            return array

        compare("P14 get 1 MiB / diskcache", by_turns(keys, ours_get), by_turns(keys, peer_get))
        absent = names(0, 1000)
        compare(
            "P14 miss on disk / diskcache", by_turns(absent, tiers.get), by_turns(absent, peer.get)
        )


def main() -> None:
    """Memory, then disk."""
    in_memory()
    with tempfile.TemporaryDirectory() as folder:
        on_disk(Path(folder))


if __name__ == "__main__":
    main()
