"""`VisionPreprocessCache` beside a plain model, step by step and under sixteen threads."""

from __future__ import annotations

import random
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from vcache_cli.serving import VisionPreprocessCache

if TYPE_CHECKING:
    from numpy.typing import NDArray

BUDGET_BYTES = 100
IDLE_SECONDS = 10.0
KEYS = st.integers(0, 7)
SIZES = st.integers(0, BUDGET_BYTES + 20)


class PreprocessMachine(RuleBasedStateMachine):
    """An ordered dict of key to (first byte, size, time of use) says what must be there."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.fill = 0
        self.cache: VisionPreprocessCache[NDArray[Any]] = VisionPreprocessCache(
            BUDGET_BYTES, idle_seconds=IDLE_SECONDS, clock=lambda: self.now
        )
        self.entries: OrderedDict[int, tuple[int, int, float]] = OrderedDict()
        self.hits = self.misses = self.evictions = 0

    def payload(self, size: int) -> NDArray[Any]:
        self.fill = (self.fill + 1) % 256
        return np.full(size, self.fill, np.uint8)

    def size_bytes(self) -> int:
        return sum(size for _, size, _ in self.entries.values())

    def sweep(self) -> int:
        before = self.size_bytes()
        for key, (_, _, used) in list(self.entries.items()):
            if self.now - used >= IDLE_SECONDS:
                del self.entries[key]
        return before - self.size_bytes()

    def look(self, key: int) -> tuple[int, int] | None:
        found = self.entries.pop(key, None)
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
            self.entries[key] = (*found[:2], self.now)
        self.sweep()
        return found[:2] if found else None

    def keep(self, key: int, size: int) -> None:
        self.sweep()
        if size > BUDGET_BYTES:
            return
        self.entries.pop(key, None)
        while self.size_bytes() + size > BUDGET_BYTES:
            self.entries.popitem(last=False)
            self.evictions += 1
        self.entries[key] = (self.fill, size, self.now)

    @rule(key=KEYS)
    def get(self, key: int) -> None:
        found = self.cache.get(key)
        expected = self.look(key)
        assert (found is None) == (expected is None)
        if found is not None and expected is not None:
            assert found.tolist() == [expected[0]] * expected[1]

    @rule(key=KEYS, size=SIZES)
    def put(self, key: int, size: int) -> None:
        self.cache.put(key, self.payload(size), size)
        self.keep(key, size)

    @rule(key=KEYS, size=SIZES)
    def get_or_preprocess(self, key: int, size: int) -> None:
        expected = self.look(key)
        found = self.cache.get_or_preprocess(key, lambda: self.payload(size))
        if expected is None:
            expected = self.fill, size
            self.keep(key, size)
            assert not found.flags.writeable
        assert found.tolist() == [expected[0]] * expected[1]

    @rule(size=SIZES)
    def preprocess_without_a_key(self, size: int) -> None:
        assert self.cache.get_or_preprocess(None, lambda: self.payload(size)).flags.writeable

    @rule(seconds=st.sampled_from([0.0, 1.0, 5.0, IDLE_SECONDS, 11.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def collect(self) -> None:
        assert self.cache.collect() == self.sweep()

    @rule()
    def clear(self) -> None:
        assert self.cache.clear() == self.size_bytes()
        self.entries.clear()

    @invariant()
    def agrees(self) -> None:
        stats = self.cache.stats()
        assert (stats.hits, stats.misses) == (self.hits, self.misses)
        assert (stats.evictions, stats.size_bytes) == (self.evictions, self.size_bytes())
        assert len(self.cache) == len(self.entries)
        assert [self.cache.contains(key) for key in range(8)] == [
            k in self.entries for k in range(8)
        ]


TestPreprocessMachine = PreprocessMachine.TestCase


def test_sixteen_threads_lose_no_count_and_no_byte() -> None:
    cache: VisionPreprocessCache[NDArray[Any]] = VisionPreprocessCache(200)
    begun = threading.Barrier(16)

    def work(number: int) -> tuple[int, int]:
        chance = random.Random(number)
        asked = ran = 0
        begun.wait()
        for _ in range(400):
            key = chance.randrange(40)

            def preprocess(key: int = key) -> NDArray[Any]:
                nonlocal ran
                ran += 1
                return np.full(10, key, np.uint8)

            asked += 1
            payload = cache.get_or_preprocess(key, preprocess)
            assert payload.tolist() == [key] * 10
            assert not payload.flags.writeable
        return asked, ran

    with ThreadPoolExecutor(16) as pool:
        asked, ran = map(sum, zip(*pool.map(work, range(16)), strict=True))
    assert (cache.hits + cache.misses, cache.misses) == (asked, ran)
    assert cache.total_bytes == 10 * len(cache) == 200
