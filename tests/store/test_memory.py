"""Entries in memory: a tier like any other, bounded by the bytes of their tensors."""

from __future__ import annotations

import pickle

import pytest

from vcache_cli.entry import Entry
from vcache_cli.items import Stage
from vcache_cli.protocols import Tier
from vcache_cli.store import MemoryTier
from vcache_cli.tensor import Tensor


def entry(key: str, size_bytes: int = 4) -> Entry:
    return Entry(key, Stage.FEATURES, {"features": Tensor("U8", (size_bytes,), bytes(size_bytes))})


def test_it_is_a_tier() -> None:
    tier: Tier = MemoryTier(10)
    kept = entry("a")
    assert tier.put(kept) == 4
    assert tier.get("a") is kept
    assert tier.contains("a")
    assert tier.get("b") is None
    assert not tier.contains("b")


def test_the_oldest_make_room() -> None:
    tier = MemoryTier(10)
    for key in "ab":
        tier.put(entry(key))
    tier.get("a")
    tier.put(entry("c"))
    assert tier.keys() == ["a", "c"]
    assert (tier.total_bytes, tier.stats().evictions, len(tier)) == (8, 1, 2)


def test_an_entry_too_large_is_not_kept() -> None:
    tier = MemoryTier(10)
    assert tier.put(entry("a", 11)) == 0
    assert not tier.contains("a")


def test_a_bound_of_entries_holds_too() -> None:
    tier = MemoryTier(1000, capacity_entries=1)
    for key in "ab":
        tier.put(entry(key))
    assert tier.keys() == ["b"]


def test_contains_counts_nothing() -> None:
    tier = MemoryTier(10)
    tier.contains("a")
    assert (tier.stats().hits, tier.stats().misses) == (0, 0)


def test_what_idles_is_dropped() -> None:
    now = [0.0]
    tier = MemoryTier(10, idle_seconds=5.0, clock=lambda: now[0])
    tier.put(entry("a"))
    now[0] = 5.0
    assert tier.collect() == 4
    assert len(tier) == 0


def test_remove_and_clear_free_bytes() -> None:
    tier = MemoryTier(10)
    for key in "ab":
        tier.put(entry(key))
    assert tier.remove("a")
    assert not tier.remove("a")
    assert tier.clear() == 4


def test_what_is_no_entry_is_a_type_error() -> None:
    tier = MemoryTier(10)
    with pytest.raises(TypeError, match="`entry` is an Entry, got dict"):
        tier.put({})  # type: ignore[arg-type]
    assert len(tier) == 0


def test_it_pickles_as_empty() -> None:
    tier = MemoryTier(10)
    tier.put(entry("a"))
    other = pickle.loads(pickle.dumps(tier))  # noqa: S301  our own bytes
    assert (len(other), other.capacity_bytes) == (0, 10)
