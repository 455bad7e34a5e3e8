"""Sender and receiver, row by row of what vLLM promises, and what goes beyond."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from vcache_cli.errors import VcacheError
from vcache_cli.serving.mirror import (
    CacheInfo,
    MultiModalCacheMissError,
    MultiModalItemMissingError,
)
from vcache_cli.serving.receiver import LruKeyReplicatedReceiverCache
from vcache_cli.serving.sender import LruKeyReplicatedSenderCache
from vcache_cli.serving.sizing import leaf_bytes

Sender = LruKeyReplicatedSenderCache[Any, Any]
Receiver = LruKeyReplicatedReceiverCache[Any]


@dataclass
class MultiModalConfig:
    """As servers have it."""

    mm_processor_cache_gb: float


@dataclass
class Config:
    """As servers have it."""

    gib: float

    def get_multimodal_config(self) -> MultiModalConfig:
        """The part that is asked for."""
        return MultiModalConfig(self.gib)


@dataclass
class FeatureSpec:
    """As servers have it."""

    data: Any
    mm_hash: str | None = None
    identifier: str = ""


def payload(size_bytes: int = 100, fill: int = 0) -> dict[str, Any]:
    """An item of so many bytes."""
    return {"pixel_values": np.full(size_bytes, fill, np.uint8)}


# --- constructor --------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [LruKeyReplicatedSenderCache, LruKeyReplicatedReceiverCache])
def test_row_constructor_takes_a_model_config_or_bytes(side: Callable[..., Sender]) -> None:
    assert side(Config(4)).capacity_bytes == 4 * 2**30
    assert side(Config(0.5)).capacity_bytes == 2**29
    assert side(capacity_bytes=1000).capacity_bytes == 1000
    with pytest.raises(TypeError, match=r"`model_config`.*`capacity_bytes`"):
        side()
    with pytest.raises(TypeError, match=r"`model_config`.*`capacity_bytes`"):
        side(Config(4), capacity_bytes=1)
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="`mm_processor_cache_gb`"):
            side(Config(wrong))


# --- sender -------------------------------------------------------------------------------------


def test_row_sender_known_sends_nothing_and_gives_the_cached_updates() -> None:
    sender = Sender(capacity_bytes=1000)
    sender.get_and_update_item((payload(), ["update"]), "a")
    assert sender.get_and_update_item((payload(), ["another"]), "a") == (None, ["update"])
    assert sender.get_and_update_item(None, "a") == (None, ["update"])


def test_row_sender_known_refreshes_the_order() -> None:
    sender = Sender(capacity_bytes=200)
    for name in "ab":
        sender.get_and_update_item((payload(), None), name)
    assert sender.get_and_update_item(None, "a") == (None, None)
    sender.get_and_update_item((payload(), None), "c")
    assert sender.hashes() == ["a", "c"]


def test_row_sender_new_returns_the_pair_and_remembers_its_size_only() -> None:
    sender = Sender(capacity_bytes=1000)
    item = payload(100)
    references = sys.getrefcount(item)
    sent = sender.get_and_update_item((item, "updates"), "a")
    assert sent[0] is item
    assert sent[1] == "updates"
    assert sender.total_bytes == 100
    del sent
    assert sys.getrefcount(item) == references


def test_row_sender_new_without_an_item_is_a_named_error() -> None:
    sender = Sender(capacity_bytes=1000)
    for absent in (None, (None, "updates")):
        with pytest.raises(MultiModalItemMissingError, match="'a'") as caught:
            sender.get_and_update_item(absent, "a")
        assert isinstance(caught.value, AssertionError)
        assert isinstance(caught.value, VcacheError)
    assert len(sender) == 0


# --- receiver -----------------------------------------------------------------------------------


def test_row_receiver_given_always_replaces_and_returns_the_item() -> None:
    receiver = Receiver(capacity_bytes=1000)
    old, new = payload(100), payload(300)
    assert receiver.get_and_update_item(old, "a") is old
    assert receiver.get_and_update_item(new, "a") is new
    assert receiver.get_and_update_item(None, "a") is new
    assert receiver.total_bytes == 300


def test_row_receiver_given_too_large_does_not_leave_the_old_one() -> None:
    receiver = Receiver(capacity_bytes=200)
    receiver.get_and_update_item(payload(100), "a")
    receiver.get_and_update_item(payload(50), "b")
    large = payload(201)
    assert receiver.get_and_update_item(large, "a") is large
    assert receiver.hashes() == ["b"]
    with pytest.raises(MultiModalCacheMissError):
        receiver.get_and_update_item(None, "a")


def test_row_receiver_without_an_item_returns_the_known_one() -> None:
    receiver = Receiver(capacity_bytes=200)
    for name in "ab":
        receiver.get_and_update_item(payload(fill=ord(name)), name)
    assert receiver.get_and_update_item(None, "a")["pixel_values"][0] == ord("a")
    receiver.get_and_update_item(payload(), "c")
    assert receiver.hashes() == ["a", "c"]


def test_row_receiver_unknown_raises_a_retryable_error_with_the_hash() -> None:
    with pytest.raises(MultiModalCacheMissError, match="a") as caught:
        Receiver(capacity_bytes=1000).get_and_update_item(None, "a")
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.mm_hashes == ["a"]


@pytest.mark.parametrize(
    "error",
    [MultiModalCacheMissError(["a", "b"]), MultiModalItemMissingError("a")],
    ids=["miss", "missing"],
)
def test_row_receiver_errors_cross_processes(error: VcacheError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


# --- the lists and the features -----------------------------------------------------------------


def test_row_get_and_update_works_in_order_over_lists() -> None:
    sender, receiver = Sender(capacity_bytes=1000), Receiver(capacity_bytes=1000)
    items = [(payload(fill=number), number) for number in (1, 2, 1)]
    sent = sender.get_and_update(items, ["a", "b", "a"])
    assert [updates for _, updates in sent] == [1, 2, 1]
    assert [item is None for item, _ in sent] == [False, False, True]
    arrived = receiver.get_and_update([item for item, _ in sent], ["a", "b", "a"])
    assert [item["pixel_values"][0] for item in arrived] == [1, 2, 1]


def test_row_get_and_update_raises_at_the_first_miss() -> None:
    receiver = Receiver(capacity_bytes=1000)
    with pytest.raises(MultiModalCacheMissError) as caught:
        receiver.get_and_update([payload(), None, None], ["a", "b", "c"])
    assert caught.value.mm_hashes == ["b"]
    assert receiver.is_cached(["a", "b", "c"]) == [True, False, False]


def test_row_get_and_update_needs_as_many_items_as_hashes() -> None:
    for cache in (Sender(capacity_bytes=1000), Receiver(capacity_bytes=1000)):
        with pytest.raises(ValueError, match="1 `mm_items` for 2 `mm_hashes`"):
            cache.get_and_update([None], ["a", "b"])


def test_row_features_are_updated_in_place_under_hash_or_identifier() -> None:
    receiver = Receiver(capacity_bytes=1000)
    first = [FeatureSpec(payload(fill=1), "a"), FeatureSpec(payload(fill=2), None, "b")]
    assert receiver.get_and_update_features(first) is first
    again = [FeatureSpec(None, "b", "other"), FeatureSpec(None, "", "a")]
    receiver.get_and_update_features(again)
    assert [feature.data["pixel_values"][0] for feature in again] == [2, 1]


def test_row_features_are_touched_first_so_that_none_is_evicted_by_its_own_request() -> None:
    receiver = Receiver(capacity_bytes=300)
    for name in "abc":
        receiver.get_and_update_item(payload(fill=ord(name)), name)
    request = [FeatureSpec(payload(fill=9), "new"), FeatureSpec(None, "a")]
    receiver.get_and_update_features(request)
    assert request[1].data["pixel_values"][0] == ord("a")
    assert receiver.hashes() == ["c", "new", "a"]


def test_row_features_survive_a_payload_of_their_own_request_that_needs_all_room() -> None:
    """Touching alone does not save them then; they are held on to."""
    receiver = Receiver(capacity_bytes=300)
    receiver.get_and_update_item(payload(fill=1), "a")
    request = [FeatureSpec(payload(300, fill=9), "new"), FeatureSpec(None, "a")]
    receiver.get_and_update_features(request)
    assert request[1].data["pixel_values"][0] == 1
    assert receiver.hashes() == ["new"]


def test_row_features_that_miss_are_named_in_one_error() -> None:
    receiver = Receiver(capacity_bytes=1000)
    names = ["x", "a", "y", "x"]
    request = [FeatureSpec(payload() if name == "a" else None, name) for name in names]
    with pytest.raises(MultiModalCacheMissError) as caught:
        receiver.get_and_update_features(request)
    assert caught.value.mm_hashes == ["x", "y"]
    assert receiver.hashes() == ["a"]


# --- the small ones -----------------------------------------------------------------------------


def test_row_is_cached_moves_no_order_and_counts_nothing() -> None:
    sender, receiver = Sender(capacity_bytes=1000), Receiver(capacity_bytes=1000)
    for name in "ab":
        sender.get_and_update_item((payload(), None), name)
        receiver.get_and_update_item(payload(), name)
    before = sender.make_stats()
    for cache in (sender, receiver):
        assert cache.is_cached_item("a")
        assert cache.is_cached(["a", "z"]) == [True, False]
        assert cache.hashes() == ["a", "b"]
    assert sender.make_stats() == before


def test_row_touch_makes_the_hash_the_youngest_on_either_side() -> None:
    sender, receiver = Sender(capacity_bytes=1000), Receiver(capacity_bytes=1000)
    for name in "ab":
        sender.get_and_update_item((payload(), None), name)
        receiver.get_and_update_item(payload(), name)
    sender.touch_sender_cache_item("a")
    receiver.touch_receiver_cache_item("a")
    assert sender.hashes() == receiver.hashes() == ["b", "a"]
    sender.touch_sender_cache_item("unknown")
    receiver.touch_receiver_cache_item("unknown", payload())
    assert len(sender) == len(receiver) == 2


def test_row_invalidate_makes_the_sender_send_again() -> None:
    sender = Sender(capacity_bytes=1000)
    item = payload()
    sender.get_and_update_item((item, None), "a")
    sender.invalidate("a")
    sender.invalidate("unknown")
    assert sender.get_and_update_item((item, None), "a")[0] is item


def test_row_clear_cache_forgets_everything() -> None:
    sender, receiver = Sender(capacity_bytes=1000), Receiver(capacity_bytes=1000)
    sender.get_and_update_item((payload(), None), "a")
    receiver.get_and_update_item(payload(), "a")
    for cache in (sender, receiver):
        cache.clear_cache()
        assert (len(cache), cache.total_bytes) == (0, 0)


def test_row_close_and_its_like_are_there_and_harmless() -> None:
    sender, receiver = Sender(capacity_bytes=1000), Receiver(capacity_bytes=1000)
    sender.get_and_update_item((payload(), None), "a")
    receiver.get_and_update_item(payload(), "a")
    for cache in (sender, receiver):
        cache.validate_input_item(payload(), "a")
        cache.release_sender_touches()
        cache.close()
        cache.close()
        assert cache.hashes() == ["a"]


def test_row_make_stats_gives_hits_of_lookups_and_deltas() -> None:
    sender = Sender(capacity_bytes=1000)
    assert sender.make_stats() == CacheInfo(0, 0)
    assert sender.make_stats().hit_ratio == 0.0
    for _ in range(4):
        sender.get_and_update_item((payload(), None), "a")
    assert sender.make_stats(delta=True) == CacheInfo(hits=3, total=4)
    assert sender.make_stats().hit_ratio == 0.75
    sender.get_and_update_item(None, "a")
    assert sender.make_stats() == CacheInfo(4, 5)
    assert sender.make_stats(delta=True) == CacheInfo(1, 1)
    assert sender.make_stats(delta=True) == CacheInfo(0, 0)


@dataclass
class Element:
    """A payload's part."""

    data: Any
    extra: list[Any] = field(default_factory=list)


def test_row_size_is_the_sum_over_the_leaves() -> None:
    array = np.zeros((3, 5), np.float32)
    assert leaf_bytes(array) == 60
    assert leaf_bytes({"a": array, "b": [array, (array, Element(array))]}) == 240
    assert leaf_bytes({"a": 7, "b": "text"}) == sys.getsizeof(7) + sys.getsizeof("text")
    assert leaf_bytes(Element(np.float16(1), [b"x"])) == 2 + sys.getsizeof(b"x")
    assert leaf_bytes([]) == leaf_bytes({}) == 0
    assert leaf_bytes(array[:, 0]) == 12
    assert leaf_bytes(Element) == sys.getsizeof(Element)


def test_row_size_of_a_deep_or_widely_shared_payload_is_found_soon() -> None:
    """Neither the stack nor the number of paths may matter."""
    deep: Any = np.zeros(1, np.uint8)
    for _ in range(100_000):
        deep = [deep]
    assert leaf_bytes(deep) == 1
    shared: Any = np.zeros(1, np.uint8)
    for _ in range(60):
        shared = (shared, shared)
    assert leaf_bytes(shared) == 2**60
    while isinstance(deep, list):  # freeing it whole would exhaust the stack in older Pythons
        deep = deep.pop()


def test_row_larger_than_the_cache_is_served_uncached_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sender, receiver = Sender(capacity_bytes=150), Receiver(capacity_bytes=150)
    small, large = payload(100), payload(151)
    sender.get_and_update_item((small, None), "a")
    receiver.get_and_update_item(small, "a")
    for _ in range(3):
        assert sender.get_and_update_item((large, None), "b")[0] is large
        assert receiver.get_and_update_item(large, "b") is large
    assert sender.hashes() == receiver.hashes() == ["a"]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def test_row_a_cache_of_nothing_serves_everything_uncached(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sender, receiver = Sender(Config(0)), Receiver(Config(0))
    item = payload()
    for _ in range(2):
        assert sender.get_and_update_item((item, None), "a")[0] is item
        assert receiver.get_and_update_item(item, "a") is item
    assert not caplog.records


# --- resend -------------------------------------------------------------------------------------


def test_row_resend_attaches_every_payload_and_looks_nothing_up() -> None:
    sender = Sender(capacity_bytes=300)
    items = [(payload(fill=number), number) for number in range(3)]
    sender.get_and_update(items, ["a", "b", "c"])
    before = sender.make_stats()
    sent = sender.get_and_update(items, ["a", "b", "c"], resend=True)
    assert all(item is given for (item, _), (given, _) in zip(sent, items, strict=True))
    assert sender.make_stats() == before
    assert sender.hashes() == ["a", "b", "c"]
    assert sender.total_bytes == 300


def test_row_resend_brings_a_restarted_receiver_back_with_one_retry() -> None:
    sender, receiver = Sender(capacity_bytes=300), Receiver(capacity_bytes=300)
    items, names = [(payload(), None) for _ in "abc"], ["a", "b", "c"]
    receiver.get_and_update([item for item, _ in sender.get_and_update(items, names)], names)
    receiver.clear_cache()
    with pytest.raises(MultiModalCacheMissError):
        receiver.get_and_update([item for item, _ in sender.get_and_update(items, names)], names)
    again = sender.get_and_update(items, names, resend=True)
    receiver.get_and_update([item for item, _ in again], names)
    assert sender.hashes() == receiver.hashes() == names


def test_row_resend_needs_every_item() -> None:
    sender = Sender(capacity_bytes=300)
    sender.get_and_update([(payload(), None)], ["a"])
    with pytest.raises(MultiModalItemMissingError):
        sender.get_and_update([None], ["a"], resend=True)


# --- bad input ----------------------------------------------------------------------------------


class Sizeless:
    """Says that it has bytes, not how many."""

    nbytes = 1.5


class Negative:
    """Owes bytes."""

    nbytes = -1


def knot() -> dict[str, Any]:
    """A payload that contains itself."""
    tied: dict[str, Any] = payload()
    tied["list"] = [tied]
    return tied


BAD = [
    ({"x": Sizeless()}, TypeError, r"`mm_item\['x'\]` \(Sizeless\) has no size"),
    ({"x": [Negative()]}, ValueError, r"`mm_item\['x'\]\[0\]` \(Negative\) has a size of -1"),
    (knot(), ValueError, r"`mm_item\['list'\]\[0\]` contains itself"),
]


@pytest.mark.parametrize(("item", "kind", "message"), BAD, ids=["sizeless", "negative", "cycle"])
def test_a_bad_payload_is_refused_by_name_and_changes_nothing(
    item: dict[str, Any], kind: type[Exception], message: str
) -> None:
    sender, receiver = Sender(capacity_bytes=1000), Receiver(capacity_bytes=1000)
    good = payload()
    receiver.get_and_update_item(good, "a")
    with pytest.raises(kind, match=message):
        receiver.get_and_update_item(item, "a")
    assert receiver.get_and_update_item(None, "a") is good
    with pytest.raises(kind, match=message):
        sender.get_and_update([(good, None), (item, None)], ["a", "b"])
    assert len(sender) == 0, "nothing was sent, so nothing is known"


@pytest.mark.parametrize("cache", [Sender(capacity_bytes=10), Receiver(capacity_bytes=10)])
def test_a_hash_that_is_not_hashable_is_refused_by_name(cache: Sender | Receiver) -> None:
    bad: Any = ["a"]
    calls: list[Callable[[], object]] = [
        lambda: cache.get_and_update_item(None, bad),
        lambda: cache.is_cached_item(bad),
        lambda: cache.get_and_update([None], [bad]),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="`mm_hash` must be hashable, got list"):
            call()


def test_an_item_that_is_no_pair_is_refused_by_name() -> None:
    item: Any = payload()
    with pytest.raises(TypeError, match="`mm_item` is a pair of item and prompt updates, got dict"):
        Sender(capacity_bytes=1000).get_and_update_item(item, "a")


def test_a_feature_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="neither `mm_hash` nor `identifier`"):
        Receiver(capacity_bytes=1000).get_and_update_features([FeatureSpec(payload())])


def test_a_request_that_fails_midway_leaves_no_belief_behind() -> None:
    """What was not sent must not be thought to have arrived: that would be a drift."""
    sender = Sender(capacity_bytes=1000)
    sender.get_and_update([(payload(), None)], ["old"])
    with pytest.raises(MultiModalItemMissingError):
        sender.get_and_update([(payload(), None), None, None], ["new", "old", "unknown"])
    assert sender.hashes() == ["old"]
