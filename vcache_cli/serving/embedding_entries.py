"""What `VisionEmbeddingCache` holds and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["EncodingCacheEntry", "PixelCacheEntry", "PixelOnlyCacheEntry", "VisionCacheStats"]


@dataclass(frozen=True, slots=True, eq=False)
class PixelCacheEntry:
    """What a processor made of images and prompt."""

    pixel_values: Any
    """An array of the server's own kind, or what holds such arrays."""
    input_ids: Any
    attention_mask: Any = None
    image_grid_thw: Any = None
    extra_kwargs: Mapping[str, Any] = field(default_factory=dict)
    processing_time: float = 0.0
    """Seconds that making it took, and that a hit saves."""

    @property
    def seconds_saved(self) -> float:
        """What a hit saves."""
        return self.processing_time


@dataclass(frozen=True, slots=True, eq=False)
class PixelOnlyCacheEntry:
    """What a processor made of images alone."""

    pixel_values: Any
    image_grid_thw: Any = None
    processing_time: float = 0.0
    """Seconds that making it took, and that a hit saves."""

    @property
    def seconds_saved(self) -> float:
        """What a hit saves."""
        return self.processing_time


@dataclass(frozen=True, slots=True, eq=False)
class EncodingCacheEntry:
    """What a model answered to images and prompt."""

    logits: Any
    first_token: int
    logprobs: Any
    encoding_time: float = 0.0
    """Seconds that making it took, and that a hit saves."""

    @property
    def seconds_saved(self) -> float:
        """What a hit saves."""
        return self.encoding_time


@dataclass(slots=True)
class VisionCacheStats:
    """Counts since the start, or since `clear`."""

    pixel_cache_hits: int = 0
    """Of both pixel caches."""
    pixel_cache_misses: int = 0
    encoding_cache_hits: int = 0
    encoding_cache_misses: int = 0
    total_time_saved: float = 0.0
    """Seconds that making the hit entries had taken."""
    total_images_processed: int = 0
    """Images of each `set_pixel_cache`."""

    @property
    def pixel_hit_rate(self) -> float:
        """Hits per lookup, 0.0 where nothing was asked."""
        return _rate(self.pixel_cache_hits, self.pixel_cache_misses)

    @property
    def encoding_hit_rate(self) -> float:
        """Hits per lookup, 0.0 where nothing was asked."""
        return _rate(self.encoding_cache_hits, self.encoding_cache_misses)

    def to_dict(self) -> dict[str, float]:
        """All counts and both rates, by name."""
        return {
            "pixel_cache_hits": self.pixel_cache_hits,
            "pixel_cache_misses": self.pixel_cache_misses,
            "pixel_hit_rate": self.pixel_hit_rate,
            "encoding_cache_hits": self.encoding_cache_hits,
            "encoding_cache_misses": self.encoding_cache_misses,
            "encoding_hit_rate": self.encoding_hit_rate,
            "total_time_saved": self.total_time_saved,
            "total_images_processed": self.total_images_processed,
        }


def _rate(hits: int, misses: int) -> float:
    return hits / (hits + misses) if hits + misses else 0.0
