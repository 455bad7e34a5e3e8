"""One of the three LRUs of `VisionEmbeddingCache`, and what its keys stand for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeAlias, TypeVar

from vcache_cli.items import Stage
from vcache_cli.serving.embedding_entries import (
    EncodingCacheEntry,
    PixelCacheEntry,
    PixelOnlyCacheEntry,
)
from vcache_cli.serving.image_hash import combined_hash, hash_text, image_hashes
from vcache_cli.serving.sizing import leaf_bytes
from vcache_cli.store.lru import ByteLru

__all__ = ["EmbeddingLevel", "Images", "source_of"]

EntryT = TypeVar("EntryT", PixelCacheEntry, PixelOnlyCacheEntry, EncodingCacheEntry)
Images: TypeAlias = Sequence[str | os.PathLike[str]]


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingLevel(Generic[EntryT]):
    """Entries of one kind, by source."""

    kind: type[EntryT]
    counted: Literal["pixel", "encoding"]
    """Begins the names of the counters, and ends those of the bounds."""
    lru: ByteLru[str, EntryT] = field(repr=False)

    @classmethod
    def bounded(
        cls,
        kind: type[EntryT],
        counted: Literal["pixel", "encoding"],
        *,
        entries: int,
        size_bytes: int | None,
    ) -> EmbeddingLevel[EntryT]:
        """An empty one.

        Raises:
            TypeError, ValueError: a bound that is no whole number from 0.
        """
        for unit, bound in (("entries", entries), ("bytes", size_bytes)):
            if bound is not None and bound < 0:
                raise ValueError(f"`max_{counted}_{unit}` is 0 or more, got {bound}")
        return cls(kind, counted, ByteLru(capacity_bytes=size_bytes, capacity_entries=entries))

    @property
    def stage(self) -> Stage:
        """Of the entries, where they persist."""
        return Stage.PIXELS if self.counted == "pixel" else Stage.FEATURES

    def keep(self, source: str, entry: EntryT) -> None:
        """Put the entry in place of what was there; where it does not fit, nothing stays.

        Raises:
            TypeError, ValueError: a member without a size, or that contains itself.
        """
        size_bytes = leaf_bytes(entry, name=self.kind.__name__)
        if not self.lru.put(source, entry, size_bytes):
            self.lru.remove(source)  # a get gives what was set last, or nothing


def source_of(images: Images, *prompts: str) -> str | None:
    """SHA-256 that stands for images and prompt; None where a file cannot be read.

    One image without a prompt is its own content: what a warm run keyed it by.

    Raises:
        TypeError: no strings.
    """
    for prompt in prompts:
        if not isinstance(prompt, str):
            raise TypeError(f"`prompt` is a string, got {type(prompt).__name__}")
    try:
        hashes = image_hashes(images)
    except OSError:
        return None
    if not prompts and len(hashes) == 1:
        return hashes[0]
    return hash_text("\n".join([combined_hash(hashes), *prompts]))
