"""Writing a header: the one form that a table of tensors has."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final

from vcache_cli.header.limits import LENGTH_BYTES
from vcache_cli.tensor import ITEMSIZE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["build_header", "canonical_order"]

_COMPACT: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True)


def canonical_order(names_and_dtypes: Mapping[str, str]) -> list[str]:
    """Names by descending itemsize, then name, so that every tensor is aligned without holes.

    >>> canonical_order({"b": "U8", "a": "F32", "c": "I64"})
    ['c', 'a', 'b']
    """
    return sorted(
        names_and_dtypes, key=lambda name: (-ITEMSIZE_BYTES[names_and_dtypes[name]], name)
    )


def build_header(
    metadata: Mapping[str, str],
    tensors: Mapping[str, tuple[str, tuple[int, ...]]],
    *,
    alignment_bytes: int = 64,
) -> bytes:
    """Length and JSON header of a file that holds `tensors` in the order given.

    Args:
        metadata: string to string; written with sorted keys.
        tensors: name to (dtype, shape), in file order.
        alignment_bytes: the header is padded with spaces so that the data starts at a multiple.
    """
    table: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))} if metadata else {}
    position = 0
    for name, (dtype, shape) in tensors.items():
        end = position + math.prod(shape) * ITEMSIZE_BYTES[dtype]
        table[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [position, end]}
        position = end
    body = _COMPACT.encode(table).encode("ascii")
    body += b" " * (-(LENGTH_BYTES + len(body)) % alignment_bytes)
    return len(body).to_bytes(LENGTH_BYTES, "little") + body
