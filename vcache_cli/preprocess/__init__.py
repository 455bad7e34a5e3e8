"""Frames to Pixels, bit for bit as a server's own image processor."""

from __future__ import annotations

from vcache_cli.preprocess.families import FixedSizeFamily, family_name

__all__ = ["FixedSizeFamily", "family_name"]
