"""Each promise of `VisionPreprocessCache`, by the row of the contract that makes it."""

from __future__ import annotations

import gc
import pickle
import threading
import time
import weakref
from collections import UserDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from vcache_cli.serving import VisionPreprocessCache

Array = NDArray[Any]


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Payload:
    """Something that a test can watch being freed."""


@dataclass
class Runtime:
    """The part of a server's configuration that counts here."""

    max_vision_preprocess_cache_bytes: int = 100
    max_video_preprocess_cache_bytes: int = 1000
    max_media_preprocess_cache_idle_seconds: float = 7.0


def idling(max_bytes: int = 100) -> tuple[VisionPreprocessCache[str], Clock]:
    clock = Clock()
    return VisionPreprocessCache(max_bytes, idle_seconds=60.0, clock=clock), clock


# --- (max_bytes, *, idle_seconds=0.0, clock=time.monotonic) -------------------------------------


@pytest.mark.parametrize("max_bytes", [0, -1])
def test_row_constructor_zero_or_less_disables(max_bytes: int) -> None:
    cache: VisionPreprocessCache[str] = VisionPreprocessCache(max_bytes)
    cache.put("a", "value", 0)
    assert cache.get("a") is None
    assert (cache.enabled, cache.hits, cache.misses, len(cache)) == (False, 0, 1, 0)
    assert cache.max_bytes == 0


def test_row_constructor_idle_zero_is_never() -> None:
    clock = Clock()
    cache: VisionPreprocessCache[str] = VisionPreprocessCache(100, clock=clock)
    cache.put("a", "value", 1)
    clock.now += 1e9
    assert cache.collect() == 0
    assert cache.get("a") == "value"


def test_row_constructor_negative_idle_clamps_to_zero() -> None:
    assert VisionPreprocessCache[str](100, idle_seconds=-3.0).idle_seconds == 0.0


# --- get(key) -----------------------------------------------------------------------------------


def test_row_get_refreshes_the_order() -> None:
    cache: VisionPreprocessCache[str] = VisionPreprocessCache(100)
    cache.put("a", "1", 40)
    cache.put("b", "2", 40)
    assert cache.get("a") == "1"
    cache.put("c", "3", 40)
    assert [cache.contains(key) for key in "abc"] == [True, False, True]


def test_row_get_refreshes_what_is_wanted_before_it_sweeps() -> None:
    cache, clock = idling()
    cache.put("a", "1", 10)
    clock.now += 61.0
    assert cache.get("a") == "1"
    clock.now += 59.0
    assert cache.get("a") == "1"


def test_row_get_sweeps_the_others_also_on_a_miss() -> None:
    cache, clock = idling()
    cache.put("a", "1", 10)
    cache.put("b", "2", 10)
    clock.now += 60.0
    assert cache.get("a") == "1"
    assert (len(cache), cache.total_bytes) == (1, 10)
    clock.now += 60.0
    assert cache.get("none") is None
    assert len(cache) == 0


def test_row_get_counts_a_hit_or_a_miss() -> None:
    cache: VisionPreprocessCache[str] = VisionPreprocessCache(100)
    cache.put(7, "seven", 1)
    cache.get(7)
    cache.get(8)
    cache.get(8)
    assert (cache.hits, cache.misses) == (1, 2)


# --- put(key, value, nbytes) --------------------------------------------------------------------


def test_row_put_sweeps_what_idles_before_it_evicts() -> None:
    cache, clock = idling()
    cache.put("a", "1", 40)
    clock.now += 30.0
    cache.put("b", "2", 40)
    clock.now += 30.0
    cache.put("c", "3", 40)
    assert [cache.contains(key) for key in "abc"] == [False, True, True]
    assert cache.evictions == 0


def test_row_put_replaces() -> None:
    cache: VisionPreprocessCache[str] = VisionPreprocessCache(100)
    cache.put("a", "old", 40)
    cache.put("a", "new", 30)
    assert (cache.get("a"), len(cache), cache.total_bytes) == ("new", 1, 30)


def test_row_put_evicts_the_oldest_to_fit() -> None:
    cache: VisionPreprocessCache[str] = VisionPreprocessCache(100)
    for key in range(10):
        cache.put(key, "small", 10)
    cache.put("large", "large", 55)
    assert [cache.contains(key) for key in range(10)] == [False] * 6 + [True] * 4
    assert cache.total_bytes == 95


def test_row_put_drops_an_oversize_payload_and_leaves_the_older_one() -> None:
    cache: VisionPreprocessCache[str] = VisionPreprocessCache(100)
    cache.put("a", "old", 60)
    cache.put("b", "other", 40)
    cache.put("a", "new", 101)
    assert (cache.get("a"), cache.get("b"), cache.evictions) == ("old", "other", 0)


def test_row_put_does_not_freeze() -> None:
    cache: VisionPreprocessCache[Array] = VisionPreprocessCache(100)
    array = np.zeros(3)
    cache.put("a", array, array.nbytes)
    assert array.flags.writeable


# --- get_or_preprocess(key, preprocess) ---------------------------------------------------------


@pytest.mark.parametrize(("key", "max_bytes"), [(None, 100), ("a", 0)])
def test_row_get_or_preprocess_without_key_or_budget_runs_untouched(
    key: str | None, max_bytes: int
) -> None:
    cache: VisionPreprocessCache[Array] = VisionPreprocessCache(max_bytes)
    for _ in range(2):
        payload = cache.get_or_preprocess(key, lambda: np.zeros(3))
        assert payload.flags.writeable
    assert (cache.hits, cache.misses, len(cache)) == (0, 0, 0)


def test_row_get_or_preprocess_hits_or_runs_and_stores() -> None:
    cache: VisionPreprocessCache[Array] = VisionPreprocessCache(100)
    first = cache.get_or_preprocess("a", lambda: np.ones(3))
    again = cache.get_or_preprocess("a", lambda: np.zeros(3))
    assert again is first
    assert (cache.hits, cache.misses, cache.total_bytes) == (1, 1, 24)
    assert not first.flags.writeable


def test_row_get_or_preprocess_returns_an_oversize_payload_frozen_and_forgets_it() -> None:
    cache: VisionPreprocessCache[Array] = VisionPreprocessCache(100)
    cache.put("kept", np.zeros(3), 24)
    payload = cache.get_or_preprocess("a", lambda: np.zeros(13))
    assert not payload.flags.writeable
    assert not cache.contains("a")
    assert cache.contains("kept")


def test_row_get_or_preprocess_holds_no_lock_and_two_callers_may_both_run() -> None:
    cache: VisionPreprocessCache[Array] = VisionPreprocessCache(100)
    both = threading.Barrier(2)

    def preprocess() -> Array:
        both.wait(timeout=10)  # only passes while both are in here
        assert cache.get("none") is None
        return np.zeros(3)

    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(cache.get_or_preprocess, "a", preprocess) for _ in range(2)]
        assert all(not answer.result().flags.writeable for answer in answers)
    assert (cache.total_bytes, len(cache), cache.evictions) == (24, 1, 0)


def test_row_get_or_preprocess_keeps_nothing_of_a_failure() -> None:
    cache: VisionPreprocessCache[Array] = VisionPreprocessCache(100)

    def fail() -> Array:
        raise OSError("cannot decode")

    with pytest.raises(OSError, match="cannot decode"):
        cache.get_or_preprocess("a", fail)
    assert (len(cache), cache.total_bytes, cache.misses) == (0, 0, 1)


def test_row_beyond_single_flight_runs_once() -> None:
    cache: VisionPreprocessCache[Array] = VisionPreprocessCache(100, single_flight=True)
    begun = threading.Barrier(8)
    runs: list[int] = []

    def preprocess() -> Array:
        runs.append(1)
        time.sleep(0.05)
        return np.zeros(3)

    def ask() -> int:
        begun.wait()
        return id(cache.get_or_preprocess("a", preprocess))

    with ThreadPoolExecutor(8) as pool:
        assert len({each.result() for each in [pool.submit(ask) for _ in range(8)]}) == 1
    assert len(runs) == 1
    assert cache.hits + cache.misses == 8


# --- freezing -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Picture:
    """What a server's processor may give."""

    pixels: Array
    label: str = "picture"


class Pair(NamedTuple):
    """Two of something."""

    left: object
    right: object


def test_row_freezing_reaches_every_array() -> None:
    arrays = [np.zeros(2) for _ in range(8)]
    payload = (
        arrays[0],
        [arrays[1], {"deep": (arrays[2],)}],
        Picture(arrays[3]),
        Pair(arrays[4], UserDict({"batch": arrays[5]})),
        np.array([arrays[6], None, "text"], dtype=object),
        {"shared": arrays[7], "again": arrays[7]},
        3,
        "text",
        None,
    )
    cache: VisionPreprocessCache[object] = VisionPreprocessCache(10_000)
    assert cache.get_or_preprocess("a", lambda: payload) is payload
    assert not any(array.flags.writeable for array in arrays)
    assert cache.total_bytes == 8 * 16 + 3 * 8


@pytest.mark.parametrize("how", ["slice", "transpose", "window", "reshape"])
def test_row_freezing_reaches_the_base_of_a_view(how: str) -> None:
    base = np.zeros((10, 4))
    view = {
        "slice": base[2:4],
        "transpose": base.T,
        "window": np.lib.stride_tricks.sliding_window_view(base, (2, 2)),
        "reshape": base.reshape(-1)[3:],
    }[how]
    cache: VisionPreprocessCache[Array] = VisionPreprocessCache(1000)
    cached = cache.get_or_preprocess("a", lambda: view)
    with pytest.raises(ValueError, match="read-only"):
        base[2, 0] = 1.0
    assert not cached.flags.writeable
    assert cache.total_bytes == base.nbytes


# --- charging -----------------------------------------------------------------------------------


def test_row_charging_a_view_costs_its_whole_buffer_once() -> None:
    batch = np.zeros((100, 10), np.float32)
    cache: VisionPreprocessCache[object] = VisionPreprocessCache(10_000)
    cache.get_or_preprocess("a", lambda: {"one": batch[0], "two": [batch[5:9], batch]})
    assert cache.total_bytes == batch.nbytes


def test_row_charging_bytes_below_an_array_count_whole() -> None:
    data = bytes(500)
    cache: VisionPreprocessCache[object] = VisionPreprocessCache(10_000)
    pair = np.frombuffer(data, np.uint8)[10:20], np.frombuffer(data, np.uint8)[:5]
    cache.get_or_preprocess("a", lambda: pair)
    assert cache.total_bytes == 500


def test_row_charging_a_payload_without_arrays_costs_nothing() -> None:
    cache: VisionPreprocessCache[object] = VisionPreprocessCache(100)
    cache.get_or_preprocess("a", lambda: ("text", 3))
    assert (cache.total_bytes, len(cache)) == (0, 1)


# --- collect(), clear() -------------------------------------------------------------------------


def test_row_collect_drops_what_idles_and_says_how_much() -> None:
    cache, clock = idling()
    cache.put("a", "1", 10)
    clock.now += 30.0
    cache.put("b", "2", 20)
    clock.now += 30.0
    assert cache.collect() == 10
    assert (len(cache), cache.total_bytes, cache.evictions) == (1, 20, 0)


def test_row_collect_needs_no_thread() -> None:
    before = threading.active_count()
    cache, _ = idling()
    cache.put("a", "1", 10)
    assert threading.active_count() == before


def test_row_clear_frees_and_keeps_the_counters() -> None:
    cache: VisionPreprocessCache[str] = VisionPreprocessCache(100)
    cache.put("a", "1", 40)
    cache.get("a")
    cache.get("b")
    assert cache.clear() == 40
    assert (len(cache), cache.total_bytes, cache.hits, cache.misses) == (0, 0, 1, 1)


# --- enabled, idle_seconds, total_bytes, hits, misses; newer: max_bytes, evictions, ... ---------


def test_row_properties_are_there() -> None:
    cache, _ = idling()
    cache.put("a", "1", 40)
    assert (cache.enabled, cache.idle_seconds, cache.total_bytes) == (True, 60.0, 40)
    assert (cache.hits, cache.misses, cache.max_bytes) == (0, 0, 100)


def test_row_newer_evictions_count_pressure_only() -> None:
    cache, clock = idling()
    cache.put("a", "1", 40)
    cache.put("a", "2", 40)  # replaced
    clock.now += 60.0
    cache.collect()  # idle
    for key in "bcd":
        cache.put(key, key, 40)
    assert cache.evictions == 1


def test_row_newer_contains_is_a_peek() -> None:
    cache, clock = idling()
    cache.put("a", "1", 40)
    cache.put("b", "2", 40)
    clock.now += 59.0
    assert cache.contains("a")
    assert not cache.contains("c")
    assert (cache.hits, cache.misses) == (0, 0)
    cache.put("c", "3", 40)
    assert not cache.contains("a")  # its place in the order did not move
    clock.now += 1.0
    cache.collect()
    assert not cache.contains("b")  # nor did a clock


def test_row_newer_stats_take_no_lock() -> None:
    cache: VisionPreprocessCache[str] = VisionPreprocessCache(100)
    cache.put("a", "1", 40)
    cache.get("a")
    cache.get("b")
    with ThreadPoolExecutor(1) as pool, cache._lru._lock:
        stats = pool.submit(cache.stats).result(timeout=10)
    assert (stats.hits, stats.misses, stats.evictions) == (1, 1, 0)
    assert (stats.size_bytes, stats.capacity_bytes) == (40, 100)


def test_row_newer_len_counts_payloads() -> None:
    cache: VisionPreprocessCache[str] = VisionPreprocessCache(100)
    cache.put("a", "1", 40)
    assert len(cache) == 1


# --- for_images(runtime), for_videos(runtime) ---------------------------------------------------


def test_row_for_images_and_for_videos_have_budgets_of_their_own() -> None:
    images = VisionPreprocessCache[str].for_images(Runtime())
    videos = VisionPreprocessCache[str].for_videos(Runtime())
    assert (images.max_bytes, videos.max_bytes) == (100, 1000)
    assert (images.idle_seconds, videos.idle_seconds) == (7.0, 7.0)


# --- pickling -----------------------------------------------------------------------------------


def test_row_pickling_arrives_empty_with_its_configuration() -> None:
    cache, _ = idling()
    cache.put("a", "1", 40)
    cache.get("a")
    other = pickle.loads(pickle.dumps(cache))  # noqa: S301  our own bytes
    assert (other.max_bytes, other.idle_seconds, other.enabled) == (100, 60.0, True)
    assert (len(other), other.total_bytes, other.hits, other.misses) == (0, 0, 0, 0)
    other.put("b", "2", 40)
    assert other._lru._order.clock is time.monotonic
    assert other.get("b") == "2"


def test_row_pickling_keeps_a_disabled_one_disabled_and_a_single_flight() -> None:
    cache = VisionPreprocessCache[str](0, single_flight=True)
    other = pickle.loads(pickle.dumps(cache))  # noqa: S301  our own bytes
    assert not other.enabled
    assert other._flights is not None


# --- freeing ------------------------------------------------------------------------------------


def test_row_freeing_happens_after_the_lock() -> None:
    cache: VisionPreprocessCache[Payload] = VisionPreprocessCache(100)
    got_the_lock: list[bool] = []

    def freed() -> None:
        with ThreadPoolExecutor(1) as pool:
            lock = cache._lru._lock
            got_the_lock.append(pool.submit(lock.acquire, timeout=5).result())

    payload = Payload()
    weakref.finalize(payload, freed)
    cache.put("a", payload, 60)
    del payload
    cache.put("b", Payload(), 60)
    gc.collect()
    assert got_the_lock == [True]


# --- bad input ----------------------------------------------------------------------------------


class Foreign:
    """An array of another framework."""

    def __dlpack__(self) -> None: ...


class Stubborn(np.ndarray[Any, Any]):
    """An array that stays writable."""

    def setflags(self, *, write: bool | None = None, **_: object) -> None:
        raise ValueError("not me")


def loop() -> object:
    inner: list[object] = [1]
    inner.append({"again": inner})
    return inner


def deep() -> object:
    value: object = 1
    for _ in range(200):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("member", "error", "message"),
    [
        (loop, ValueError, r"`payload\['bad'\]\[1\]\['again'\]` contains itself"),
        (deep, ValueError, r"`payload\['bad'\](\[0\])+` lies more than 100 deep"),
        (Foreign, TypeError, r"`payload\['bad'\]` is a .*Foreign, which cannot be made read-only"),
        (lambda: np.zeros(3).view(Stubborn), ValueError, r"`payload\['bad'\]` cannot .*: not me"),
        (
            lambda: [np.frombuffer(bytearray(8), np.uint8)],
            ValueError,
            r"`payload\['bad'\]\[0\]` lies in the memory of a `bytearray`, which stays writable",
        ),
    ],
)
def test_a_payload_that_cannot_be_frozen_names_the_member(
    member: Any,  # noqa: ANN401  whatever makes a bad one
    error: type[Exception],
    message: str,
) -> None:
    cache: VisionPreprocessCache[object] = VisionPreprocessCache(1000)
    good = cache.get_or_preprocess("good", lambda: np.zeros(3))
    with pytest.raises(error, match=message):
        cache.get_or_preprocess("a", lambda: {"fine": 1, "bad": member()})
    assert (len(cache), cache.total_bytes, cache.misses) == (1, 24, 2)
    assert cache.get("good") is good
    assert cache.get_or_preprocess("a", lambda: "fine") == "fine"


def test_a_bad_member_leaves_the_others_writable() -> None:
    cache: VisionPreprocessCache[object] = VisionPreprocessCache(1000)
    array = np.zeros(3)
    with pytest.raises(TypeError):
        cache.get_or_preprocess("a", lambda: [array, Foreign()])
    assert array.flags.writeable


@pytest.mark.parametrize("nbytes", [None, 2.5, "8"])
def test_a_value_without_a_size_is_a_type_error(nbytes: object) -> None:
    cache: VisionPreprocessCache[str] = VisionPreprocessCache(100)
    cache.put("a", "old", 4)
    with pytest.raises(TypeError, match="`nbytes` is a whole number"):
        cache.put("a", "new", nbytes)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`nbytes` is 0 or more"):
        cache.put("a", "new", -1)
    assert (cache.get("a"), cache.total_bytes) == ("old", 4)


@pytest.mark.parametrize("single_flight", [True, False])
def test_a_key_that_is_not_hashable_is_a_type_error(*, single_flight: bool) -> None:
    cache: VisionPreprocessCache[str] = VisionPreprocessCache(100, single_flight=single_flight)
    key: Any = ["list"]
    for call in (
        lambda: cache.get(key),
        lambda: cache.put(key, "value", 1),
        lambda: cache.contains(key),
        lambda: cache.get_or_preprocess(key, lambda: "value"),
    ):
        with pytest.raises(TypeError, match="`key` must be hashable, got list"):
            call()
    assert (len(cache), cache.hits, cache.misses) == (0, 0, 0)


@pytest.mark.parametrize(
    ("arguments", "member"), [((1.5, 0.0), "max_bytes"), ((None, 0.0), "max_bytes")]
)
def test_a_budget_that_is_no_number_is_named(arguments: tuple[Any, Any], member: str) -> None:
    with pytest.raises(TypeError, match=f"`{member}` is a whole number"):
        VisionPreprocessCache(arguments[0], idle_seconds=arguments[1])


def test_an_idle_time_that_is_no_number_is_named() -> None:
    with pytest.raises(TypeError, match="`idle_seconds` is a number of seconds, got NoneType"):
        VisionPreprocessCache(100, idle_seconds=None)  # type: ignore[arg-type]
