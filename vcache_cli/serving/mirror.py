"""What sender and receiver share: a byte-bounded LRU under hashes, kept alike on both sides."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Hashable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from vcache_cli.errors import VcacheError
from vcache_cli.serving.sizing import leaf_bytes
from vcache_cli.store.lru import ByteLru

__all__ = [
    "CacheInfo",
    "HashMirror",
    "ModelConfig",
    "MultiModalCacheMissError",
    "MultiModalItemMissingError",
]

V = TypeVar("V")

_log = logging.getLogger(__name__)


class MultiModalCacheMissError(VcacheError, RuntimeError):
    """A payload was left out, and the receiver no longer holds it. Retry with ``resend=True``.

    Args:
        mm_hashes: what is missing, each once.
    """

    kind = "cache_miss"

    def __init__(self, mm_hashes: Sequence[str]) -> None:
        self.mm_hashes: list[str] = list(mm_hashes)
        shown = ", ".join(map(str, self.mm_hashes[:8]))
        super().__init__(
            f"{len(self.mm_hashes)} payload(s) neither sent nor held here: {shown}",
            hint="send the request again with `get_and_update(..., resend=True)`",
        )

    def __reduce__(self) -> tuple[type[MultiModalCacheMissError], tuple[list[str]]]:
        return type(self), (self.mm_hashes,)  # it crosses processes


class MultiModalItemMissingError(VcacheError, AssertionError):
    """The sender was asked to send what it does not know, without the item itself.

    Args:
        mm_hash: of the item.
    """

    kind = "item_missing"

    def __init__(self, mm_hash: Hashable) -> None:
        self.mm_hash = mm_hash
        super().__init__(
            f"no item for `mm_hash` {mm_hash!r}, which must be sent",
            hint="ask `is_cached_item` and touch what is known before leaving an item out",
        )

    def __reduce__(self) -> tuple[type[MultiModalItemMissingError], tuple[Hashable]]:
        return type(self), (self.mm_hash,)


class CacheInfo(NamedTuple):
    """Lookups of a cache."""

    hits: int
    total: int

    @property
    def hit_ratio(self) -> float:
        """Hits per lookup; 0.0 where nothing was asked."""
        return self.hits / self.total if self.total else 0.0

    def __sub__(self, earlier: CacheInfo) -> CacheInfo:
        return CacheInfo(self.hits - earlier.hits, self.total - earlier.total)


class _MultiModalConfig(Protocol):
    @property
    def mm_processor_cache_gb(self) -> float: ...


class ModelConfig(Protocol):
    """As much of a server's configuration as these caches read."""

    def get_multimodal_config(self) -> _MultiModalConfig:
        """What has `mm_processor_cache_gb`: the budget of each side, GiB."""
        ...


class HashMirror(Generic[V]):
    """One side. Any thread.

    Args:
        model_config: names the budget, or
        capacity_bytes: the budget itself; 0 keeps nothing. Equal on both sides.

    Raises:
        TypeError: neither is given, or both.
        ValueError: a negative budget, or one that is no number.
    """

    def __init__(
        self, model_config: ModelConfig | None = None, *, capacity_bytes: int | None = None
    ) -> None:
        if (model_config is None) == (capacity_bytes is None):
            raise TypeError("give either `model_config` or `capacity_bytes`")
        if model_config is not None:
            capacity_bytes = _configured_bytes(model_config)
        self._cache: ByteLru[Hashable, V] = ByteLru(capacity_bytes=capacity_bytes)
        self._lock = threading.RLock()
        self._warned = False

    def is_cached_item(self, mm_hash: str) -> bool:
        """True where the hash is known. Moves no order, counts nothing."""
        return checked_hash(mm_hash) in self._cache

    def is_cached(self, mm_hashes: Sequence[str]) -> list[bool]:
        """`is_cached_item` of each."""
        return [self.is_cached_item(mm_hash) for mm_hash in mm_hashes]

    def clear_cache(self) -> None:
        """Forget everything. The other side must do the same, or its requests will miss."""
        self._cache.clear()

    def close(self) -> None:
        """Nothing: no file, thread or segment is held."""

    def validate_input_item(self, item: object, mm_hash: str) -> None:
        """Nothing: every payload is accepted."""

    def release_sender_touches(self) -> None:
        """Nothing: a touch pins nothing here."""

    @property
    def capacity_bytes(self) -> int:
        """The budget."""
        return self._cache.capacity_bytes or 0

    @property
    def total_bytes(self) -> int:
        """Bytes of the payloads that this side believes both to hold."""
        return self._cache.total_bytes

    def hashes(self) -> list[Hashable]:
        """The hashes, least recently used first: equal on both sides unless they drifted."""
        return self._cache.keys()

    def __len__(self) -> int:
        """Hashes known."""
        return len(self._cache)

    def _keep(self, mm_hash: Hashable, value: V, size_bytes: int) -> None:
        """Put `value` in place of what was there; where it does not fit, nothing stays."""
        if self._cache.put(mm_hash, value, size_bytes):
            return
        self._cache.remove(mm_hash)  # else the old payload would be served for the new one
        with self._lock:
            first, self._warned = not self._warned, True
        if first and self.capacity_bytes:
            _log.warning(
                "an item of %d bytes is larger than the whole cache of %d bytes: served uncached",
                size_bytes,
                self.capacity_bytes,
            )


def pairs_of(items: Sequence[V], mm_hashes: Sequence[str]) -> list[tuple[V, str]]:
    """Items with their hashes.

    Raises:
        ValueError: not as many of one as of the other.
    """
    if len(items) != len(mm_hashes):
        raise ValueError(f"{len(items)} `mm_items` for {len(mm_hashes)} `mm_hashes`")
    return list(zip(items, mm_hashes, strict=True))


def item_bytes(item: object) -> int:
    """Size of an item, as both sides find it.

    Raises:
        TypeError, ValueError: see `leaf_bytes`.
    """
    return leaf_bytes(item, name="mm_item")


def _configured_bytes(model_config: ModelConfig) -> int:
    budget_gib = model_config.get_multimodal_config().mm_processor_cache_gb
    if not (math.isfinite(budget_gib) and budget_gib >= 0):
        raise ValueError(f"`mm_processor_cache_gb` is 0 or more, got {budget_gib!r}")
    return int(budget_gib * 2**30)


def checked_hash(mm_hash: Hashable) -> Hashable:
    """The hash itself.

    Raises:
        TypeError: it cannot be a key.
    """
    try:
        hash(mm_hash)
    except TypeError as error:
        raise TypeError(f"`mm_hash` must be hashable, got {type(mm_hash).__name__}") from error
    return mm_hash
