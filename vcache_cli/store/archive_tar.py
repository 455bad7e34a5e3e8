"""The little of tar that an export needs: what stands before a member, made of name and size.

Owner, time and mode are always the same, so equal members are equal bytes, and a reader need not
understand a header: it knows which one has to come.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "BLOCK_BYTES",
    "END_MARK",
    "MAX_MEMBER_BYTES",
    "filling",
    "member_header",
    "plain_member",
]

BLOCK_BYTES: Final = 512
END_MARK: Final = bytes(2 * BLOCK_BYTES)
"""What an archive ends with."""
MAX_MEMBER_BYTES: Final = 8**11 - 1
"""What the eleven octal digits of a header can say."""
_NAME_BYTES: Final = 100
_SIZE: Final = slice(124, 136)
_CHECKSUM: Final = slice(148, 156)
_PAX_NAME: Final = b".vcache-export/path"


def member_header(name: str, size_bytes: int) -> bytes:
    """All that stands before a member's data: one block, or three where the name needs a record.

    >>> len(member_header("ab/abcd.safetensors", 64)), len(member_header("a" * 101, 64))
    (512, 1536)
    """
    raw = name.encode("utf-8")
    if len(raw) <= _NAME_BYTES and name.isascii():
        return _block(raw, size_bytes, b"0")
    record = _record(b"path=" + raw + b"\n")
    short = raw.decode("ascii", "replace").encode("ascii", "replace")[:_NAME_BYTES]
    before = _block(_PAX_NAME, len(record), b"x") + record + filling(len(record))
    return before + _block(short, size_bytes, b"0")


def filling(size_bytes: int) -> bytes:
    """The zeros after data of that size."""
    return bytes(-size_bytes % BLOCK_BYTES)


def plain_member(block: bytes) -> tuple[str, int] | None:
    """Name and size of the member whose whole header is `block`; None for anything else."""
    try:
        name = block[:_NAME_BYTES].rstrip(b"\0").decode("ascii")
        size_bytes = int(block[_SIZE][:-1], 8)
        same = member_header(name, size_bytes) == block
    except ValueError:
        return None
    return (name, size_bytes) if same else None


def _block(name: bytes, size_bytes: int, kind: bytes) -> bytes:
    block = bytearray(BLOCK_BYTES)
    block[: len(name)] = name
    block[100:108] = b"0000444\0"
    block[108:116] = block[116:124] = b"0000000\0"  # uid and gid
    block[_SIZE] = b"%011o\0" % size_bytes
    block[136:148] = b"00000000000\0"  # mtime
    block[_CHECKSUM] = b" " * 8
    block[156:157] = kind
    block[257:265] = b"ustar\0" + b"00"
    block[329:337] = block[337:345] = b"0000000\0"  # device numbers
    block[_CHECKSUM] = b"%06o\0 " % sum(block)
    return bytes(block)


def _record(text: bytes) -> bytes:
    """A pax record: its own length in decimal, a space, the text."""
    length = len(text) + 2
    while len(record := b"%d %b" % (length, text)) != length:
        length += 1
    return record
