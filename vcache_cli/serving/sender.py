"""The front end's side (P0): knows what the engine holds, and holds no payload itself."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from vcache_cli.serving.mirror import (
    CacheInfo,
    HashMirror,
    ModelConfig,
    MultiModalItemMissingError,
    checked_hash,
    item_bytes,
    pairs_of,
)

__all__ = ["LruKeyReplicatedSenderCache"]

ItemT = TypeVar("ItemT")
UpdatesT = TypeVar("UpdatesT")
Given: TypeAlias = tuple[ItemT, UpdatesT] | None


class LruKeyReplicatedSenderCache(HashMirror[tuple[UpdatesT]], Generic[ItemT, UpdatesT]):
    """Leaves a payload out where the receiver has it. Any thread.

    It remembers each item's size and prompt updates only, and evicts in the receiver's order.
    The two agree as long as requests arrive whole and in the order of the calls here. Where they
    do not, the receiver raises `MultiModalCacheMissError`; then call
    ``get_and_update(items, hashes, resend=True)`` once: what it returns cannot miss.

    Args:
        model_config, capacity_bytes: see `HashMirror`.
    """

    def __init__(
        self, model_config: ModelConfig | None = None, *, capacity_bytes: int | None = None
    ) -> None:
        super().__init__(model_config, capacity_bytes=capacity_bytes)
        self._told = CacheInfo(0, 0)

    def get_and_update_item(
        self, mm_item: Given[ItemT, UpdatesT], mm_hash: str
    ) -> tuple[ItemT | None, UpdatesT]:
        """What to send for an item.

        Args:
            mm_item: ``(item, prompt_updates)``, or None where the caller knows it to be cached.
            mm_hash: names the item's content.

        Returns:
            ``(None, prompt updates as cached)`` where the receiver has it, else `mm_item`.

        Raises:
            MultiModalItemMissingError: the hash is not known and there is no item.
            TypeError, ValueError: an item without a size, or no pair; nothing is remembered.
        """
        checked_hash(mm_hash)
        with self._lock:
            known = self._cache.get(mm_hash)
            return (None, known[0]) if known is not None else self._send(mm_item, mm_hash)

    def get_and_update(
        self,
        mm_items: Sequence[Given[ItemT, UpdatesT]],
        mm_hashes: Sequence[str],
        *,
        resend: bool = False,
    ) -> list[tuple[ItemT | None, UpdatesT]]:
        """`get_and_update_item` of each, in order, with no other request in between.

        Args:
            mm_items: as many as hashes.
            mm_hashes: as many as items.
            resend: attach every payload and look nothing up: the answer to a miss. Counts
                nothing.

        Raises:
            MultiModalItemMissingError, TypeError, ValueError: see `get_and_update_item`. Nothing
                was sent then, so what this call had added is forgotten.
        """
        pairs = pairs_of(mm_items, mm_hashes)
        with self._lock, contextlib.ExitStack() as undo:
            answers = []
            for item, mm_hash in pairs:
                if resend or not self.is_cached_item(mm_hash):
                    undo.callback(self._cache.remove, mm_hash)
                step = self._send if resend else self.get_and_update_item
                answers.append(step(item, mm_hash))
            undo.pop_all()
        return answers

    def touch_sender_cache_item(self, mm_hash: str) -> None:
        """Make the hash the most recently used; nothing where it is not known."""
        self._cache.touch(checked_hash(mm_hash))

    def invalidate(self, mm_hash: str) -> None:
        """Forget a hash, so that its payload is sent next time."""
        self._cache.remove(checked_hash(mm_hash))

    def make_stats(self, *, delta: bool = False) -> CacheInfo:
        """Lookups since the start; with `delta` those since the last call with `delta`."""
        with self._lock:
            counts = self._cache.stats()
            total = CacheInfo(counts.hits, counts.hits + counts.misses)
            if not delta:
                return total
            told, self._told = self._told, total
        return total - told

    def _send(self, mm_item: Given[ItemT, UpdatesT], mm_hash: str) -> tuple[ItemT, UpdatesT]:
        """Note that the receiver will hold the item."""
        item, updates = _pair(mm_item, mm_hash)
        self._keep(mm_hash, (updates,), item_bytes(item))
        return item, updates


def _pair(mm_item: Any, mm_hash: str) -> tuple[Any, Any]:  # noqa: ANN401  whatever was given
    if mm_item is None:
        raise MultiModalItemMissingError(mm_hash)
    if not (isinstance(mm_item, tuple) and len(mm_item) == 2):
        raise TypeError(
            f"`mm_item` is a pair of item and prompt updates, got {type(mm_item).__name__}"
        )
    if mm_item[0] is None:  # nothing to send: the receiver would miss for ever
        raise MultiModalItemMissingError(mm_hash)
    return mm_item
