"""SHA-256 identities: of source bytes, and of values in canonical JSON."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

__all__ = ["DIGEST_LENGTH", "canonical_json", "digest_bytes", "digest_chunks", "digest_json"]

DIGEST_LENGTH: Final = 64
"""Hexadecimal digits of a digest; no digest of ours is ever cut."""


def canonical_json(value: object) -> bytes:
    r"""The one JSON form of `value`: sorted keys, no spaces, ASCII, no NaN.

    Raises:
        ValueError: a float that is not finite.
        TypeError: a value that JSON has no form for.

    >>> canonical_json({"b": 1, "a": [0.5, "\u00e9"]})
    b'{"a":[0.5,"\\u00e9"],"b":1}'
    """
    return _CANONICAL.encode(value).encode("ascii")


_CANONICAL: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
)
"""Made once: `json.dumps` makes one in each call."""


def digest_bytes(data: bytes | bytearray | memoryview) -> str:
    """SHA-256 of `data`, 64 lowercase hexadecimal digits.

    >>> digest_bytes(b"")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(data).hexdigest()


def digest_chunks(chunks: Iterable[bytes]) -> str:
    """SHA-256 of the concatenation of `chunks`, held one at a time."""
    hasher = hashlib.sha256()
    for chunk in chunks:
        hasher.update(chunk)
    return hasher.hexdigest()


def digest_json(value: object) -> str:
    """SHA-256 of the canonical JSON of `value`."""
    return digest_bytes(canonical_json(value))
