"""XXH3-128 of a whole file with its own 32 digits read as ``0``: metadata is covered too."""

from __future__ import annotations

from functools import cache
from typing import Final

import xxhash

from vcache_cli.errors import InvalidEntryError

__all__ = ["BLANK", "DIGITS", "STEP_BYTES", "digits_at", "start_checksum"]

DIGITS: Final = 32
"""Hexadecimal digits of the checksum."""
BLANK: Final = b"0" * DIGITS
"""What the digits are read as."""
STEP_BYTES: Final = 256 * 1024
"""Hashed in steps of this size while the data is in the processor's cache."""


def digits_at(header: bytes, field: str) -> int:
    """Where in `header`, bytes from its start, the digits of metadata `field` begin.

    A quote inside a JSON string is escaped, so in a valid header the pattern occurs as a key only.

    Raises:
        InvalidEntryError: there is no such field, written without spaces.
    """
    pattern = _pattern(field)
    found = header.find(pattern)
    if found < 0:
        raise InvalidEntryError(f"no checksum `{field}` in the header", finding="checksum")
    return found + len(pattern)


@cache
def _pattern(field: str) -> bytes:
    return f'"{field}":"'.encode("ascii")


def start_checksum(head: bytes | memoryview, digits: int) -> xxhash.xxh3_128:
    """The checksum fed with `head`, a file's first bytes, whose own digits begin at `digits`."""
    view = memoryview(head)
    checksum = xxhash.xxh3_128(view[:digits])
    checksum.update(BLANK)
    checksum.update(view[digits + DIGITS :])
    return checksum
