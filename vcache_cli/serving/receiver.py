"""The engine's side (P1): holds the payloads."""

from __future__ import annotations

from collections.abc import Hashable, MutableSequence, Sequence
from typing import Any, Generic, Protocol, TypeVar

from vcache_cli.serving.mirror import (
    HashMirror,
    MultiModalCacheMissError,
    checked_hash,
    item_bytes,
    pairs_of,
)

__all__ = ["Feature", "LruKeyReplicatedReceiverCache"]

ItemT = TypeVar("ItemT")


class Feature(Protocol):
    """One media item of a request, as servers pass it."""

    data: Any
    """The payload; None where the sender left it out."""
    mm_hash: str | None
    identifier: str
    """Stands in where there is no `mm_hash`."""


FeatureT = TypeVar("FeatureT", bound=Feature)


class LruKeyReplicatedReceiverCache(HashMirror[ItemT], Generic[ItemT]):
    """Puts payloads back that the sender left out. Any thread.

    Args:
        model_config, capacity_bytes: see `HashMirror`.
    """

    def get_and_update_item(self, mm_item: ItemT | None, mm_hash: str) -> ItemT:
        """The payload: the one given, which replaces what was held, or the one held.

        Raises:
            MultiModalCacheMissError: neither given nor held.
            TypeError, ValueError: a payload without a size; what was held stays.
        """
        checked_hash(mm_hash)
        if mm_item is not None:
            self._keep(mm_hash, mm_item, item_bytes(mm_item))
            return mm_item
        held = self._cache.get(mm_hash)
        if held is None:
            raise MultiModalCacheMissError([mm_hash])
        return held

    def get_and_update(
        self, mm_items: Sequence[ItemT | None], mm_hashes: Sequence[str]
    ) -> list[ItemT]:
        """`get_and_update_item` of each, in order; the first miss raises.

        Raises:
            MultiModalCacheMissError, TypeError, ValueError: see `get_and_update_item`.
        """
        return [self.get_and_update_item(item, key) for item, key in pairs_of(mm_items, mm_hashes)]

    def get_and_update_features(
        self, mm_features: MutableSequence[FeatureT]
    ) -> MutableSequence[FeatureT]:
        """Fill in `data` of each feature of one request, in place.

        All are touched first and then held on to, so that a payload of this request cannot push
        out another one of it.

        Raises:
            MultiModalCacheMissError: once, naming all that is neither given nor held.
            TypeError, ValueError: see `get_and_update_item`, or a feature without a name.
        """
        keys = [_name_of(feature) for feature in mm_features]
        held: dict[Hashable, ItemT] = {}
        for feature, key in zip(mm_features, keys, strict=True):
            self.touch_receiver_cache_item(key, feature.data)
            if (known := self._cache.peek(key)) is not None:
                held[key] = known
        missing: dict[str, None] = {}
        for feature, key in zip(mm_features, keys, strict=True):
            if feature.data is not None:
                feature.data = held[key] = self.get_and_update_item(feature.data, key)
            elif key in held:
                feature.data = self._cache.get(key, held[key])
            else:
                missing[key] = None
        if missing:
            raise MultiModalCacheMissError(list(missing))
        return mm_features

    def touch_receiver_cache_item(self, mm_hash: str, mm_item: ItemT | None = None) -> None:
        """Make the hash the most recently used; nothing where it is not held."""
        self._cache.touch(checked_hash(mm_hash))


def _name_of(feature: Feature) -> str:
    name = feature.mm_hash or feature.identifier
    if not name:
        raise ValueError("a feature has neither `mm_hash` nor `identifier`")
    checked_hash(name)
    return name
