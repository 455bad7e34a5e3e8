"""One tier before another: promotion, write-through, and who is asked how often."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.patience import until, waiting
from vcache_cli.digest import digest_json
from vcache_cli.entry import Entry, Provenance
from vcache_cli.errors import StoreFullError
from vcache_cli.items import Stage
from vcache_cli.protocols import Tier
from vcache_cli.store import DiskStore, MemoryTier, StoreRoot, TieredCache, create_meta
from vcache_cli.targets import NativeLayout, native_key
from vcache_cli.tensor import Tensor


class Slow(MemoryTier):
    """A back that takes its time, and counts how often it is read."""

    reads = 0
    wait: Callable[[], object] = bool

    def get(self, key: str) -> Entry | None:
        self.reads += 1
        self.wait()
        return super().get(key)


class Full(MemoryTier):
    """A back with no room."""

    def put(self, entry: Entry) -> int:
        raise StoreFullError("no room")


def entry(key: str, data: bytes = b"four") -> Entry:
    return Entry(key, Stage.FEATURES, {"features": Tensor("U8", (len(data),), data)})


def test_a_get_promotes() -> None:
    front, back = MemoryTier(100), MemoryTier(100)
    tiers: Tier = TieredCache(front, back)
    kept = entry("a")
    back.put(kept)
    assert tiers.get("a") is kept
    assert front.contains("a")
    assert tiers.get("a") is kept
    assert back.stats().hits == 1


def test_a_put_writes_through() -> None:
    front, back = MemoryTier(100), MemoryTier(100)
    assert TieredCache(front, back).put(entry("a")) == 4
    assert front.contains("a")
    assert back.contains("a")


def test_contains_asks_either_and_promotes_nothing() -> None:
    front, back = MemoryTier(100), MemoryTier(100)
    tiers = TieredCache(front, back)
    front.put(entry("a"))
    back.put(entry("b"))
    assert [tiers.contains(key) for key in "abc"] == [True, True, False]
    assert not front.contains("b")


def test_what_the_front_cannot_hold_still_comes_from_the_back() -> None:
    front, back = MemoryTier(2), MemoryTier(100)
    tiers = TieredCache(front, back)
    assert tiers.put(entry("a")) == 4
    assert tiers.get("a") is not None
    assert len(front) == 0


def test_what_the_back_refuses_does_not_come_to_the_front() -> None:
    front = MemoryTier(100)
    with pytest.raises(StoreFullError):
        TieredCache(front, Full(100)).put(entry("a"))
    assert not front.contains("a")


@pytest.mark.parametrize("kept", [True, False])
def test_in_single_flight_the_back_is_read_once(*, kept: bool) -> None:
    back = Slow(100)
    if kept:
        back.put(entry("a"))
    tiers = TieredCache(MemoryTier(100), back, single_flight=True)
    flights = tiers._flights
    assert flights is not None
    back.wait = lambda: until(lambda: waiting(flights) == 7)
    begun = threading.Barrier(8)

    def ask() -> Entry | None:
        begun.wait()
        return tiers.get("a")

    with ThreadPoolExecutor(8) as pool:
        answers = {each.result() for each in [pool.submit(ask) for _ in range(8)]}
    assert len(answers) == 1
    assert (None in answers) is not kept
    assert back.reads == 1


def test_memory_before_a_disk_serves_what_an_earlier_process_wrote(tmp_path: Path) -> None:
    path = tmp_path / "store"
    root = StoreRoot(path, NativeLayout(), create_meta(path, target="native"))
    recipe = Provenance("0" * 64, {})
    key = native_key(Stage.FEATURES, "0" * 64, digest_json({}))
    kept = Entry(key, Stage.FEATURES, {"features": Tensor("U8", (4,), b"four")}, recipe)
    with DiskStore(root, mode="w") as store:
        assert TieredCache(MemoryTier(100), store).put(kept) > 4
    front = MemoryTier(100)
    found = TieredCache(front, DiskStore(root)).get(key)
    assert found is not None
    assert bytes(found.tensors["features"].data) == b"four"
    assert front.contains(key)


def test_sixteen_threads_never_get_another_keys_entry() -> None:
    tiers = TieredCache(MemoryTier(40), MemoryTier(10_000), single_flight=True)

    def work(number: int) -> None:
        chance = random.Random(number)
        for _ in range(300):
            key = str(chance.randrange(50))
            found = tiers.get(key)
            if found is None:
                tiers.put(entry(key, key.encode()))
            else:
                assert (found.key, bytes(found.tensors["features"].data)) == (key, key.encode())

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    assert all(tiers.get(str(number)) is not None for number in range(50))
