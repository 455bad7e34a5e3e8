"""XXH3-128 of a whole file with its own 32 digits read as ``0``: metadata is covered too."""

from __future__ import annotations

from typing import Final

import xxhash

from vcache_cli.errors import InvalidEntryError

__all__ = ["BLANK", "DIGITS", "STEP_BYTES", "Checksum", "digits_at"]

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
    pattern = b'"%s":"' % field.encode("ascii")
    found = header.find(pattern)
    if found < 0:
        raise InvalidEntryError(f"no checksum `{field}` in the header", finding="checksum")
    return found + len(pattern)


class Checksum:
    """A running checksum, fed front to back. One thread."""

    def __init__(self, header: bytes | memoryview, digits: int) -> None:
        """Begin with the file's first bytes, whose own digits lie at `digits`."""
        view = memoryview(header)
        self._hash = xxhash.xxh3_128(view[:digits])
        self._hash.update(BLANK)
        self._hash.update(view[digits + DIGITS :])
        self.update = self._hash.update

    def hexdigest(self) -> str:
        """32 lowercase hexadecimal digits."""
        return self._hash.hexdigest()
