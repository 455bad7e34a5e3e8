"""The values of a header, and the limits that a layout sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["LENGTH_BYTES", "Header", "HeaderLimits", "TensorSpec"]

LENGTH_BYTES: Final = 8
"""Bytes of the little-endian length that a file starts with."""


@dataclass(frozen=True, slots=True)
class HeaderLimits:
    """What a layout's files may hold; anything beyond is not an entry."""

    max_header_bytes: int = 65_536
    """Longest JSON header, bytes, padding included."""
    max_tensors: int = 64
    min_tensors: int = 0
    max_ndim: int = 8
    min_ndim: int = 0
    max_file_bytes: int = 2 * 1024**3
    """Largest file, bytes."""
    alignment_bytes: int = 64
    """The tensors' data starts at a multiple of this."""
    name_pattern: str = r"[a-z0-9_.]{1,64}"
    """What a tensor's name matches, whole."""
    dtypes: frozenset[str] = frozenset({"BF16", "F16", "F32", "I32", "I64", "U8", "U32", "BOOL"})
    foreign_dtypes: bool = False
    """Tensors of other dtypes may lie there too; their sizes are not checked against a shape."""
    null_metadata: bool = False
    """`__metadata__` may be null, which stands for none: MLX writes it so."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Where one tensor lies."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    """First byte, counted from the end of the header."""
    end: int
    """One past the last byte, counted from the end of the header."""


@dataclass(frozen=True, slots=True)
class Header:
    """A checked header."""

    metadata: Mapping[str, str]
    tensors: tuple[TensorSpec, ...]
    """In the order in which they lie in the file."""
    data_start: int = field(default=0)
    """Where the tensors' data starts in the file, bytes."""
