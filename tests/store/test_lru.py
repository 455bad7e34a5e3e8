"""The LRU against a model: exact bytes, exact counts, exact order, whatever is done to it."""

from __future__ import annotations

import gc
import pickle
import random
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.patience import until, waiting
from vcache_cli.store import ByteLru, LruStats

MAX_BYTES = 100
MAX_ENTRIES = 8
IDLE_SECONDS = 30.0


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Payload:
    """Something that a test can watch being freed."""


class Model:
    """What `ByteLru` promises, in the plainest words; slow."""

    def __init__(self, max_bytes: int, max_entries: int, idle_seconds: float) -> None:
        self.entries: OrderedDict[int, tuple[str, int, float]] = OrderedDict()
        self.max_bytes = max_bytes
        self.max_entries = max_entries
        self.idle_seconds = idle_seconds
        self.hits = self.misses = self.evictions = 0

    @property
    def size_bytes(self) -> int:
        return sum(size for _, size, _ in self.entries.values())

    def sweep(self, now: float) -> int:
        idle = [key for key, entry in self.entries.items() if now - entry[2] >= self.idle_seconds]
        freed = sum(self.entries[key][1] for key in idle)
        for key in idle:
            del self.entries[key]
        return freed

    def refresh(self, key: int, now: float) -> None:
        value, size, _ = self.entries.pop(key)
        self.entries[key] = (value, size, now)

    def get(self, key: int, now: float) -> str | None:
        found = self.entries.get(key)
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
            self.refresh(key, now)
        self.sweep(now)
        return found[0] if found else None

    def put(self, key: int, value: str, size: int, now: float) -> bool:
        self.sweep(now)
        if size > self.max_bytes:
            return False
        self.entries.pop(key, None)
        while self.entries and (
            self.size_bytes + size > self.max_bytes or len(self.entries) >= self.max_entries
        ):
            self.entries.popitem(last=False)
            self.evictions += 1
        self.entries[key] = (value, size, now)
        return True


KEYS = st.integers(0, 11)


class LruMachine(RuleBasedStateMachine):
    """Every operation, in any order, beside the model."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.dropped_bytes = 0
        self.lru: ByteLru[int, str] = ByteLru(
            capacity_bytes=MAX_BYTES,
            capacity_entries=MAX_ENTRIES,
            idle_seconds=IDLE_SECONDS,
            clock=self.clock,
        )
        self.model = Model(MAX_BYTES, MAX_ENTRIES, IDLE_SECONDS)

    @rule(key=KEYS)
    def get(self, key: int) -> None:
        assert self.lru.get(key) == self.model.get(key, self.clock.now)

    @rule(key=KEYS, value=st.text(max_size=2), size=st.integers(0, MAX_BYTES + 20))
    def put(self, key: int, value: str, size: int) -> None:
        kept = self.model.put(key, value, size, self.clock.now)
        assert self.lru.put(key, value, size) is kept

    @rule(key=KEYS)
    def peek(self, key: int) -> None:
        found = self.model.entries.get(key)
        assert self.lru.peek(key) == (found[0] if found else None)
        assert (key in self.lru) is (found is not None)

    @rule(key=KEYS)
    def touch(self, key: int) -> None:
        there = key in self.model.entries
        if there:
            self.model.refresh(key, self.clock.now)
        self.model.sweep(self.clock.now)
        assert self.lru.touch(key) is there

    @rule(key=KEYS)
    def remove(self, key: int) -> None:
        found = self.model.entries.pop(key, None)
        assert self.lru.remove(key) == (found[0] if found else None)

    @rule(key=KEYS, value=st.text(max_size=2), size=st.integers(0, MAX_BYTES + 20))
    def get_or_compute(self, key: int, value: str, size: int) -> None:
        found = self.model.get(key, self.clock.now)
        if found is None:
            self.model.put(key, value, size, self.clock.now)
        expected = value if found is None else found
        assert self.lru.get_or_compute(key, lambda: (value, size)) == expected

    @rule(seconds=st.sampled_from([0.0, 1.0, 14.0, IDLE_SECONDS, 31.0]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def collect(self) -> None:
        assert self.lru.collect() == self.model.sweep(self.clock.now)

    @rule()
    def clear(self) -> None:
        assert self.lru.clear() == self.model.size_bytes
        self.model.entries.clear()

    @rule()
    def pickle(self) -> None:
        other = pickle.loads(pickle.dumps(self.lru))  # noqa: S301  our own bytes
        assert other.stats() == LruStats(0, 0, 0, 0, MAX_BYTES)
        assert (other.capacity_entries, other.idle_seconds) == (MAX_ENTRIES, IDLE_SECONDS)

    @invariant()
    def agrees(self) -> None:
        model = self.model
        counts = (model.hits, model.misses, model.evictions, model.size_bytes, MAX_BYTES)
        assert self.lru.stats() == LruStats(*counts)
        assert self.lru.keys() == list(model.entries)
        assert len(self.lru) == len(model.entries)


TestLruMachine = LruMachine.TestCase


# --- bounds -----------------------------------------------------------------------------------


def test_without_bounds_everything_stays() -> None:
    lru: ByteLru[int, int] = ByteLru(capacity_bytes=None)
    for number in range(1000):
        assert lru.put(number, number, 1 << 40)
    assert (len(lru), lru.evictions, lru.capacity_bytes) == (1000, 0, None)


@pytest.mark.parametrize("bounds", [(0, None), (None, 0), (0, 0)])
def test_a_bound_of_zero_keeps_nothing_and_counts_misses(bounds: tuple[int, int]) -> None:
    lru: ByteLru[str, str] = ByteLru(capacity_bytes=bounds[0], capacity_entries=bounds[1])
    assert not lru.put("a", "value", 0)
    assert lru.get("a") is None
    assert (len(lru), lru.misses, lru.evictions) == (0, 1, 0)


def test_an_oversize_value_evicts_nothing_and_leaves_the_older_one() -> None:
    lru: ByteLru[str, str] = ByteLru(capacity_bytes=10)
    lru.put("a", "old", 5)
    lru.put("b", "other", 5)
    assert not lru.put("a", "new", 11)
    assert (lru.peek("a"), lru.peek("b"), lru.total_bytes, lru.evictions) == ("old", "other", 10, 0)


def test_replacing_a_key_at_capacity_evicts_no_other() -> None:
    lru: ByteLru[str, int] = ByteLru(capacity_bytes=None, capacity_entries=2)
    lru.put("a", 1, 1)
    lru.put("b", 2, 1)
    lru.put("a", 3, 1)
    assert (lru.keys(), lru.evictions) == (["b", "a"], 0)


def test_a_value_may_be_none() -> None:
    lru: ByteLru[str, None] = ByteLru(capacity_bytes=10)
    lru.put("a", None, 1)
    assert lru.get("a", "default") is None
    assert lru.peek("b", "default") == "default"
    assert lru.hits == 1


# --- what leaves ------------------------------------------------------------------------------


def test_each_dropped_entry_is_told_once_outside_the_lock() -> None:
    clock = Clock()
    told: list[tuple[str, int, int]] = []
    free: list[bool] = []

    def hear(key: str, value: int, size_bytes: int) -> None:
        told.append((key, value, size_bytes))
        other = threading.Thread(target=lambda: free.append(lru.peek("none") is None))
        other.start()
        other.join(timeout=10)

    lru: ByteLru[str, int] = ByteLru(
        capacity_bytes=10, idle_seconds=5.0, clock=clock, on_evict=hear
    )
    lru.put("a", 1, 6)
    lru.put("b", 2, 6)  # no room for both
    clock.now += 5.0
    lru.collect()
    lru.put("c", 3, 6)
    lru.put("c", 4, 6)  # what the caller replaces, removes or clears, the caller knows
    lru.remove("c")
    lru.put("d", 5, 6)
    lru.clear()
    assert told == [("a", 1, 6), ("b", 2, 6)]
    assert free == [True, True]


def drop(lru: ByteLru[str, Payload], clock: Clock, how: str) -> None:
    """Make `a` leave."""
    clock.now += 5.0 * (how == "idle")
    {
        "evict": lambda: lru.put("b", Payload(), 10),
        "replace": lambda: lru.put("a", Payload(), 1),
        "remove": lambda: lru.remove("a"),
        "clear": lru.clear,
        "idle": lru.collect,
    }[how]()


@pytest.mark.parametrize("how", ["evict", "replace", "remove", "clear", "idle"])
def test_values_are_freed_when_no_lock_is_held(how: str) -> None:
    """Freeing gigabytes takes tens of milliseconds, in which everybody else would wait."""
    clock = Clock()
    lru: ByteLru[str, Payload] = ByteLru(capacity_bytes=10, idle_seconds=5.0, clock=clock)
    got_the_lock: list[bool] = []

    def freed() -> None:
        other = threading.Thread(target=lambda: got_the_lock.append(lru._lock.acquire(timeout=5)))
        other.start()
        other.join()

    payload = Payload()
    weakref.finalize(payload, freed)
    lru.put("a", payload, 10)
    del payload
    drop(lru, clock, how)
    assert got_the_lock == [True]


def test_a_finalizer_may_use_the_cache() -> None:
    lru: ByteLru[str, Payload] = ByteLru(capacity_bytes=10)
    payload = Payload()
    payload.itself = payload  # type: ignore[attr-defined]  # only the collector frees it
    weakref.finalize(payload, lambda: lru.put("left", Payload(), 1))
    lru.put("a", payload, 10)
    del payload
    lru.clear()
    gc.collect()
    assert lru.keys() == ["left"]


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [None, 1.5, "10", b""])
def test_a_value_without_a_size_is_a_type_error(size: object) -> None:
    lru: ByteLru[str, str] = ByteLru(capacity_bytes=10)
    lru.put("a", "old", 3)
    with pytest.raises(TypeError, match="`size_bytes` is a whole number"):
        lru.put("a", "new", size)  # type: ignore[arg-type]
    assert lru.stats() == LruStats(0, 0, 0, 3, 10)


def test_a_negative_size_is_a_value_error() -> None:
    lru: ByteLru[str, str] = ByteLru(capacity_bytes=10)
    with pytest.raises(ValueError, match="`size_bytes` is 0 or more, got -1"):
        lru.put("a", "new", -1)
    assert len(lru) == 0


@pytest.mark.parametrize("call", ["get", "peek", "put", "touch", "remove", "in", "compute"])
def test_a_key_that_is_not_hashable_is_a_type_error(call: str) -> None:
    lru: ByteLru[object, str] = ByteLru(capacity_bytes=10)
    lru.put("a", "value", 3)
    key: list[int] = []
    calls: dict[str, Callable[[], object]] = {
        "get": lambda: lru.get(key),
        "peek": lambda: lru.peek(key),
        "put": lambda: lru.put(key, "value", 1),
        "touch": lambda: lru.touch(key),
        "remove": lambda: lru.remove(key),
        "in": lambda: key in lru,
        "compute": lambda: lru.get_or_compute(key, lambda: ("value", 1)),
    }
    with pytest.raises(TypeError, match="`key` must be hashable, got list"):
        calls[call]()
    assert lru.stats() == LruStats(0, 0, 0, 3, 10)
    assert lru.get("a") == "value"  # no lock was left behind


@pytest.mark.parametrize(
    ("capacity_bytes", "capacity_entries", "idle_seconds", "member"),
    [
        (-1, None, 0.0, "capacity_bytes"),
        (1, -1, 0.0, "capacity_entries"),
        (1, None, -1.0, "idle_seconds"),
        (1, None, float("nan"), "idle_seconds"),
    ],
)
def test_a_bad_bound_is_named(
    capacity_bytes: int, capacity_entries: int | None, idle_seconds: float, member: str
) -> None:
    with pytest.raises(ValueError, match=f"`{member}` is 0 or more"):
        ByteLru(
            capacity_bytes=capacity_bytes,
            capacity_entries=capacity_entries,
            idle_seconds=idle_seconds,
        )


def test_a_failing_compute_keeps_nothing() -> None:
    lru: ByteLru[str, str] = ByteLru(capacity_bytes=10)

    def fail() -> tuple[str, int]:
        raise LookupError("no picture")

    with pytest.raises(LookupError, match="no picture"):
        lru.get_or_compute("a", fail)
    assert lru.get_or_compute("a", lambda: ("value", 1)) == "value"
    assert lru.stats() == LruStats(0, 2, 0, 1, 10)


# --- single flight ----------------------------------------------------------------------------


def together(lru: ByteLru[str, int], outcome: BaseException | int) -> tuple[list[object], int]:
    """What eight callers of one key get, and how often it was computed."""
    runs = 0
    begun = threading.Barrier(8)

    def compute() -> tuple[int, int]:
        nonlocal runs
        runs += 1
        first = runs == 1
        if first:
            until(lambda: waiting(lru._flights) == 7)
        if isinstance(outcome, Exception) or (first and isinstance(outcome, BaseException)):
            raise outcome
        return (outcome if isinstance(outcome, int) else 7), 1

    def ask() -> object:
        begun.wait()
        try:
            return lru.get_or_compute("a", compute)
        except BaseException as error:  # noqa: BLE001  the answer under test
            return error

    with ThreadPoolExecutor(8) as pool:
        answers = [each.result() for each in [pool.submit(ask) for _ in range(8)]]
    return answers, runs


def test_those_who_ask_at_the_same_time_share_one_computation() -> None:
    lru: ByteLru[str, int] = ByteLru(capacity_bytes=10)
    assert together(lru, 5) == ([5] * 8, 1)
    assert len(lru._flights) == 0


def test_an_oversize_result_is_shared_but_not_kept() -> None:
    lru: ByteLru[str, int] = ByteLru(capacity_bytes=0)
    assert together(lru, 5) == ([5] * 8, 1)
    assert len(lru) == 0


def test_an_error_reaches_everyone_who_waited() -> None:
    lru: ByteLru[str, int] = ByteLru(capacity_bytes=10)
    error = ValueError("broken")
    assert together(lru, error) == ([error] * 8, 1)
    assert len(lru._flights) == 0


def test_where_the_first_is_interrupted_another_takes_over() -> None:
    lru: ByteLru[str, int] = ByteLru(capacity_bytes=10)
    answers, runs = together(lru, KeyboardInterrupt())
    assert sorted(map(repr, answers)) == [*["7"] * 7, "KeyboardInterrupt()"]
    assert runs == 2


def test_a_computation_that_asks_for_its_own_key_does_not_wait_for_itself() -> None:
    lru: ByteLru[str, int] = ByteLru(capacity_bytes=10)

    def inner() -> int:
        return lru.get_or_compute("a", lambda: (1, 1))

    assert lru.get_or_compute("a", lambda: (inner() + 1, 1)) == 2


# --- many threads -----------------------------------------------------------------------------


def mixed_work(lru: ByteLru[int, int], number: int) -> tuple[int, int, int]:
    """Hits, misses and bytes put, as one of many threads saw them."""
    chance = random.Random(number)
    hits = misses = put_bytes = 0
    for step in range(1500):
        if step % 3 == 0:  # nobody replaces another's, so that bytes add up
            key = number * 10_000 + step
            put_bytes += 10 * lru.put(key, key, 10)
            continue
        key = chance.randrange(200)
        found = lru.get(key)
        assert found in {None, key}
        hits, misses = hits + (found is not None), misses + (found is None)
    return hits, misses, put_bytes


def test_sixteen_threads_lose_no_count_and_no_byte() -> None:
    """What each saw is added up, and held against what the cache says of itself."""
    dropped: dict[int, int] = dict.fromkeys(range(16), 0)
    local = threading.local()

    def hear(key: int, value: int, size_bytes: int) -> None:
        assert key == value
        dropped[local.number] += size_bytes

    lru: ByteLru[int, int] = ByteLru(capacity_bytes=2000, on_evict=hear)
    begun = threading.Barrier(16)

    def work(number: int) -> tuple[int, int, int]:
        local.number = number
        begun.wait()
        return mixed_work(lru, number)

    with ThreadPoolExecutor(16) as pool:
        hits, misses, put_bytes = map(sum, zip(*pool.map(work, range(16)), strict=True))
    assert (lru.hits, lru.misses) == (hits, misses)
    assert put_bytes == lru.total_bytes + sum(dropped.values())
    assert lru.evictions * 10 == sum(dropped.values())
    assert lru.total_bytes == 10 * len(lru) == 2000


def test_sixteen_threads_do_what_one_would() -> None:
    """The order in which the lock was taken, replayed one by one on the model."""
    clock = Clock()
    lru: ByteLru[int, str] = ByteLru(
        capacity_bytes=MAX_BYTES, capacity_entries=MAX_ENTRIES, idle_seconds=1e9, clock=clock
    )
    log: list[tuple[str, int, str, int, object]] = []
    begun = threading.Barrier(16)

    def work(number: int) -> None:
        chance = random.Random(number)
        begun.wait()
        for step in range(200):
            key, size = chance.randrange(12), chance.randrange(MAX_BYTES + 20)
            value = f"{number}.{step}"
            with lru._lock:  # an operation and its place in the log are one
                if chance.random() < 0.5:
                    log.append(("put", key, value, size, lru.put(key, value, size)))
                else:
                    log.append(("get", key, "", 0, lru.get(key)))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    model = Model(MAX_BYTES, MAX_ENTRIES, 1e9)
    for name, key, value, size, answer in log:
        got = model.get(key, 0.0) if name == "get" else model.put(key, value, size, 0.0)
        assert got == answer
    assert lru.stats() == LruStats(
        model.hits, model.misses, model.evictions, model.size_bytes, MAX_BYTES
    )
    assert lru.keys() == list(model.entries)


@pytest.mark.slow
def test_an_operation_costs_the_same_at_a_million_entries() -> None:
    """Evicting, replacing and idling too: nothing walks over what is held."""
    clock = Clock()
    lru: ByteLru[int, int] = ByteLru(capacity_bytes=1_000_000, idle_seconds=1e6, clock=clock)
    for number in range(1_000_000):
        lru.put(number, number, 1)
    clock.now += 1.0

    def seconds(work: Callable[[int], object]) -> float:
        begun = time.thread_time()  # a busy machine is no fault of ours
        for number in range(1_000_000, 1_001_000):
            work(number)
        return time.thread_time() - begun

    works: list[Callable[[int], object]] = [
        lambda n: lru.put(n, n, 1),
        lru.get,
        lambda n: lru.get(n - 900_000),
        lru.touch,
        lru.remove,
        lambda _: lru.stats(),
        lambda _: lru.collect(),
    ]
    # A walk over a million takes 10 ms and more each time; a second is 1 ms.
    assert max(seconds(work) for work in works) < 1.0
