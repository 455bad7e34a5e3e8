"""`VisionEmbeddingCache`: pixels and encodings of requests, by the content of their images."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from vcache_cli.serving.embedding_entries import (
    EncodingCacheEntry,
    PixelCacheEntry,
    PixelOnlyCacheEntry,
    VisionCacheStats,
)
from vcache_cli.serving.embedding_level import EmbeddingLevel, Images, source_of
from vcache_cli.serving.embedding_store import EmbeddingStore

__all__ = ["VisionEmbeddingCache"]

EntryT = TypeVar("EntryT", PixelCacheEntry, PixelOnlyCacheEntry, EncodingCacheEntry)


class VisionEmbeddingCache:
    """Three LRUs: pixels by images and prompt, pixels by images, encodings by images and prompt.

    Images are strings: a file counts by its content, anything else by its spelling. Their order
    matters. A file that cannot be read is a miss and is not kept. Any thread.

    Args:
        max_pixel_entries: of each of the two pixel LRUs; 0 keeps none.
        max_encoding_entries: 0 keeps none.
        enabled: False makes every call a no-op that counts nothing; may be changed.
        max_pixel_bytes: of each of the two pixel LRUs; None for no bound.
        max_encoding_bytes: None for no bound.
        persistence: where entries outlive the process; None for nowhere.

    Raises:
        TypeError, ValueError: a limit that is no whole number from 0.
    """

    def __init__(  # noqa: PLR0913  the signature of vllm-mlx, and what goes beyond it
        self,
        max_pixel_entries: int = 100,
        max_encoding_entries: int = 50,
        enabled: bool = True,  # noqa: FBT001, FBT002  as there
        *,
        max_pixel_bytes: int | None = None,
        max_encoding_bytes: int | None = None,
        persistence: EmbeddingStore | None = None,
    ) -> None:
        self.max_pixel_entries = max_pixel_entries
        self.max_encoding_entries = max_encoding_entries
        self.enabled = enabled
        self._persistence = persistence
        self._lock = threading.Lock()
        self._stats = VisionCacheStats()
        self._pixel = EmbeddingLevel.bounded(
            PixelCacheEntry, "pixel", entries=max_pixel_entries, size_bytes=max_pixel_bytes
        )
        self._pixel_only = EmbeddingLevel.bounded(
            PixelOnlyCacheEntry, "pixel", entries=max_pixel_entries, size_bytes=max_pixel_bytes
        )
        self._encoding = EmbeddingLevel.bounded(
            EncodingCacheEntry,
            "encoding",
            entries=max_encoding_entries,
            size_bytes=max_encoding_bytes,
        )

    # --- pixels by images and prompt ---------------------------------------------------------

    def get_pixel_cache(self, images: Images, prompt: str) -> PixelCacheEntry | None:
        """What was set for these images and this prompt; None for a miss.

        Raises:
            TypeError: `images` are no strings, or `prompt` is none.
        """
        return self._get(self._pixel, images, prompt)

    def set_pixel_cache(  # noqa: PLR0913, PLR0917  the signature of vllm-mlx
        self,
        images: Images,
        prompt: str,
        pixel_values: Any,  # noqa: ANN401  the server's own arrays
        input_ids: Any,  # noqa: ANN401
        attention_mask: Any = None,  # noqa: ANN401
        image_grid_thw: Any = None,  # noqa: ANN401
        extra_kwargs: Mapping[str, Any] | None = None,
        processing_time: float = 0.0,
    ) -> None:
        """Keep what a processor made; counts the images.

        Args:
            processing_time: seconds that it took.

        Raises:
            TypeError, ValueError: a member without a size, or that contains itself.
        """
        entry = PixelCacheEntry(
            pixel_values,
            input_ids,
            attention_mask,
            image_grid_thw,
            {} if extra_kwargs is None else extra_kwargs,
            processing_time,
        )
        if self._set(self._pixel, entry, images, prompt):
            with self._lock:
                self._stats.total_images_processed += len(images)

    # --- pixels by images alone --------------------------------------------------------------

    def get_pixel_values(self, images: Images) -> PixelOnlyCacheEntry | None:
        """What was set for these images; None for a miss. Counts as a pixel lookup.

        Raises:
            TypeError: `images` are no strings.
        """
        return self._get(self._pixel_only, images)

    def set_pixel_values(
        self,
        images: Images,
        pixel_values: Any,  # noqa: ANN401  the server's own arrays
        image_grid_thw: Any = None,  # noqa: ANN401
        processing_time: float = 0.0,
    ) -> None:
        """Keep what a processor made of images, whatever the prompt.

        Args:
            processing_time: seconds that it took.

        Raises:
            TypeError, ValueError: see `set_pixel_cache`.
        """
        entry = PixelOnlyCacheEntry(pixel_values, image_grid_thw, processing_time)
        self._set(self._pixel_only, entry, images)

    # --- encodings by images and prompt ------------------------------------------------------

    def get_encoding_cache(self, images: Images, prompt: str) -> EncodingCacheEntry | None:
        """What was set for these images and this prompt; None for a miss.

        Raises:
            TypeError: see `get_pixel_cache`.
        """
        return self._get(self._encoding, images, prompt)

    def set_encoding_cache(  # noqa: PLR0913, PLR0917  the signature of vllm-mlx
        self,
        images: Images,
        prompt: str,
        logits: Any,  # noqa: ANN401  the server's own arrays
        first_token: int,
        logprobs: Any,  # noqa: ANN401
        encoding_time: float = 0.0,
    ) -> None:
        """Keep what a model answered.

        Args:
            encoding_time: seconds that it took.

        Raises:
            TypeError, ValueError: see `set_pixel_cache`.
        """
        entry = EncodingCacheEntry(logits, first_token, logprobs, encoding_time)
        self._set(self._encoding, entry, images, prompt)

    # --- counts ------------------------------------------------------------------------------

    @property
    def stats(self) -> VisionCacheStats:
        """The counts now; a copy."""
        with self._lock:
            return replace(self._stats)

    def get_stats(self) -> dict[str, float]:
        """`stats` by name, with the number of entries of each LRU."""
        return {
            **self.stats.to_dict(),
            "pixel_cache_size": len(self._pixel.lru),
            "pixel_only_cache_size": len(self._pixel_only.lru),
            "encoding_cache_size": len(self._encoding.lru),
        }

    def clear(self) -> None:
        """Drop all entries in memory and all counts; what persists stays."""
        for lru in (self._pixel.lru, self._pixel_only.lru, self._encoding.lru):
            lru.clear()
        with self._lock:
            self._stats = VisionCacheStats()

    def __repr__(self) -> str:
        pixels, encodings = self.max_pixel_entries, self.max_encoding_entries
        return (
            f"<VisionEmbeddingCache pixel={len(self._pixel.lru)}/{pixels}"
            f" pixel_only={len(self._pixel_only.lru)}/{pixels}"
            f" encoding={len(self._encoding.lru)}/{encodings}>"
        )

    # --- one way in, one way out -------------------------------------------------------------

    def _get(self, level: EmbeddingLevel[EntryT], images: Images, *prompts: str) -> EntryT | None:
        if not self.enabled or not images:
            return None
        source = source_of(images, *prompts)
        entry = None
        if source is not None:
            entry = level.lru.get(source) or self._load(level, source)
        self._count(level, entry)
        return entry

    def _set(
        self, level: EmbeddingLevel[EntryT], entry: EntryT, images: Images, *prompts: str
    ) -> bool:
        """Keep the entry; False where the cache is off, or the images are none or unreadable."""
        if not self.enabled or not images:
            return False
        source = source_of(images, *prompts)
        if source is None:
            return False
        level.keep(source, entry)
        if self._persistence is not None:
            self._persistence.put(entry, level.stage, source)
        return True

    def _load(self, level: EmbeddingLevel[EntryT], source: str) -> EntryT | None:
        """The entry from where it persists, brought back into memory."""
        if self._persistence is None:
            return None
        entry = self._persistence.get(level.kind, level.stage, source)
        if entry is not None:
            level.keep(source, entry)
        return entry

    def _count(self, level: EmbeddingLevel[EntryT], entry: EntryT | None) -> None:
        name = f"{level.counted}_cache_{'misses' if entry is None else 'hits'}"
        with self._lock:
            setattr(self._stats, name, getattr(self._stats, name) + 1)
            if entry is not None:
                self._stats.total_time_saved += entry.seconds_saved
