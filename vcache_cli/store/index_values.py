"""Values as the index holds them: keys in half their bytes, numbers with a sign. Pure."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import UnionType

__all__ = [
    "HASH_BYTES",
    "Packed",
    "check_types",
    "pack_key",
    "signed",
    "unpack_hashes",
    "unpack_key",
]

Packed = bytes | str
"""A key or digest as the database holds it."""

HASH_BYTES: Final = 32
"""Of a packed key that was 64 hex, and of a packed digest."""
_HASH_DIGITS: Final = frozenset("0123456789abcdef")


def pack_key(key: str) -> Packed:
    r"""64 hex as 32 bytes, any other text as it is.

    >>> pack_key("ab" * 32) == b"\xab" * 32, pack_key("request-7")
    (True, 'request-7')
    """
    if len(key) == 2 * HASH_BYTES and _HASH_DIGITS.issuperset(key):
        return bytes.fromhex(key)
    return key


def unpack_key(value: Packed) -> str:
    """The key that was packed.

    Raises:
        sqlite3.DatabaseError: a column of a file that is not ours holds something else.
    """
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str):
        return value
    raise sqlite3.DatabaseError(f"a key of type {type(value).__name__}")


def unpack_hashes(packed: bytes) -> list[str]:
    r"""Keys or digests of `HASH_BYTES` each that were packed one after the other.

    >>> [each[:4] for each in unpack_hashes(b"\xab" * 32 + b"\xcd" * 32)]
    ['abab', 'cdcd']
    """
    digits, step = packed.hex(), 2 * HASH_BYTES
    return [digits[begin : begin + step] for begin in range(0, len(digits), step)]


def check_types(row: Sequence[object], kinds: Sequence[type | UnionType]) -> None:
    """Check a row: SQLite holds any type in any column, and anyone may have written the file.

    Raises:
        sqlite3.DatabaseError: a value is of another type.
    """
    if not all(map(isinstance, row, kinds)):
        found = ", ".join(type(value).__name__ for value in row)
        raise sqlite3.DatabaseError(f"a row of types {found}")


def signed(inode: int) -> int:
    """The same 64 bits, as SQLite can hold them."""
    return inode - 2**64 if inode >= 2**63 else inode
