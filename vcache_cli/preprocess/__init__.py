"""Frames to Pixels, bit for bit as a server's own image processor."""

from __future__ import annotations

from vcache_cli.preprocess.families import FixedSizeFamily, FixedSizePreprocessor, family_name

__all__ = ["FixedSizeFamily", "FixedSizePreprocessor", "family_name"]
