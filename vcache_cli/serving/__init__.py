"""Caches that servers embed: the names and calls that they know, over one engine and one store."""

from vcache_cli.serving.embedding import VisionEmbeddingCache
from vcache_cli.serving.embedding_entries import (
    EncodingCacheEntry,
    PixelCacheEntry,
    PixelOnlyCacheEntry,
    VisionCacheStats,
)
from vcache_cli.serving.embedding_store import EmbeddingStore, KeyRule, native_rule, pack_numpy
from vcache_cli.serving.feature_ssd import VisionFeatureSSDCache
from vcache_cli.serving.freezing import freeze
from vcache_cli.serving.image_hash import compute_image_hash, compute_images_hash
from vcache_cli.serving.mirror import (
    CacheInfo,
    MultiModalCacheMissError,
    MultiModalItemMissingError,
)
from vcache_cli.serving.pixel_store import PixelKey, PixelStore, pixel_key
from vcache_cli.serving.preprocess import PreprocessRuntime, VisionPreprocessCache
from vcache_cli.serving.receiver import LruKeyReplicatedReceiverCache
from vcache_cli.serving.sender import LruKeyReplicatedSenderCache
from vcache_cli.serving.shared_payload import SharedMailbox, SharedPayload

__all__ = [
    "CacheInfo",
    "EmbeddingStore",
    "EncodingCacheEntry",
    "KeyRule",
    "LruKeyReplicatedReceiverCache",
    "LruKeyReplicatedSenderCache",
    "MultiModalCacheMissError",
    "MultiModalItemMissingError",
    "PixelCacheEntry",
    "PixelKey",
    "PixelOnlyCacheEntry",
    "PixelStore",
    "PreprocessRuntime",
    "SharedMailbox",
    "SharedPayload",
    "VisionCacheStats",
    "VisionEmbeddingCache",
    "VisionFeatureSSDCache",
    "VisionPreprocessCache",
    "compute_image_hash",
    "compute_images_hash",
    "freeze",
    "native_rule",
    "pack_numpy",
    "pixel_key",
]
