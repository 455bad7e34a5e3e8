"""Strict codec of safetensors headers: what is read is checked before any library sees it.

The format allows less than its readers accept: a negative or fractional shape, overlapping
tensors and duplicate keys are taken by some of them, and one of these crashes the process at
the next operation. So an accepted header here is a subset of what every known reader accepts.
"""

from __future__ import annotations

from vcache_cli.header.build import build_header, canonical_order
from vcache_cli.header.limits import LENGTH_BYTES, Header, HeaderLimits, TensorSpec
from vcache_cli.header.parse import header_length, parse_header
from vcache_cli.header.template import HeaderReader

__all__ = [
    "LENGTH_BYTES",
    "Header",
    "HeaderLimits",
    "HeaderReader",
    "TensorSpec",
    "build_header",
    "canonical_order",
    "header_length",
    "parse_header",
]
