"""Caches that servers embed: the names and calls that they know, over one engine and one store."""

from vcache_cli.serving.feature_ssd import VisionFeatureSSDCache
from vcache_cli.serving.freezing import freeze
from vcache_cli.serving.pixel_store import PixelKey, PixelStore, pixel_key
from vcache_cli.serving.preprocess import PreprocessRuntime, VisionPreprocessCache

__all__ = [
    "PixelKey",
    "PixelStore",
    "PreprocessRuntime",
    "VisionFeatureSSDCache",
    "VisionPreprocessCache",
    "freeze",
    "pixel_key",
]
