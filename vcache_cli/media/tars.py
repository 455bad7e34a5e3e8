"""Members of an uncompressed tar, by its headers alone: streamed, whatever its size.

Links, devices and sparse members hold no picture of their own. Names are told, never followed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from vcache_cli.items import Trouble
from vcache_cli.media.parts import MAX_MEMBERS, StoredPart
from vcache_cli.media.readable import CutError, read_exactly, read_most

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vcache_cli.media.readable import Readable

__all__ = ["looks_like_tar", "tar_parts"]

_BLOCK: Final = 512
_MAX_EXTENSION_BYTES: Final = 1024 * 1024
"""Of a long name, or of a set of pax records."""
_REGULAR: Final = frozenset(b"\x0007")
_LONG_NAME, _PAX, _GLOBAL_PAX, _LONG_LINK = b"LxgK"
_FOLDER: Final = ord("5")
_SPARSE: Final = ord("S")
_LEFT_OUT: Final = Trouble("link", "a link or a device, not a file", skipped=True, warns=False)
_SPARSE_MEMBER: Final = Trouble("sparse", "a sparse member is not read", skipped=True)

_NO_END: Final = Trouble(
    "no_end_mark", "ends without its end mark: it may be cut off", skipped=True
)


@dataclass(frozen=True, slots=True)
class _Header:
    name: bytes
    size_bytes: int
    type: int
    sparse: bool = False


def looks_like_tar(head: bytes) -> bool:
    """True where `head`, the first 512 bytes, is a header with its checksum."""
    return len(head) == _BLOCK and _checksum_holds(head)


def tar_parts(source: Readable) -> Iterator[StoredPart | tuple[str, Trouble]]:
    """Each member in turn, or its name and why it is none; at most one damage, at the end.

    Raises:
        ReadError: it cannot be read.
    """
    offset, count, extended = 0, 0, _Header(b"", -1, 0)
    while (block := read_most(source, offset, _BLOCK)).strip(b"\0"):
        try:
            header = _parse(block)
            data = offset + _BLOCK
            _check(header, data=data, size_bytes=source.size_bytes, count=count)
            if header.type in {_LONG_NAME, _PAX, _GLOBAL_PAX, _LONG_LINK}:
                extended = _extend(extended, header, _extension(source, header, data))
            else:
                header = _with_extension(header, extended)
                _check(header, data=data, size_bytes=source.size_bytes, count=count)
                extended, count = _Header(b"", -1, 0), count + 1
                yield from _member(header, data)
        except (CutError, ValueError) as error:
            yield (
                "",
                Trouble(
                    "damaged",
                    f"damaged at byte {offset}: {error}",
                    hint="copy or download it again",
                ),
            )
            return
        offset = data + -(-header.size_bytes // _BLOCK) * _BLOCK
    if not block:
        yield "", _NO_END


def _member(header: _Header, data: int) -> Iterator[StoredPart | tuple[str, Trouble]]:
    name = os.fsdecode(header.name)
    if header.type == _FOLDER or (header.type in _REGULAR and name.endswith("/")):
        return
    if header.sparse or header.type == _SPARSE:
        yield name, _SPARSE_MEMBER
    elif header.type in _REGULAR:
        yield StoredPart(name, data, header.size_bytes)
    else:
        yield name, _LEFT_OUT


def _parse(block: bytes) -> _Header:
    if len(block) < _BLOCK:
        raise ValueError("it ends inside a header")
    if not _checksum_holds(block):
        raise ValueError("a header with a wrong checksum")
    name = block[:100].partition(b"\0")[0]
    prefix = block[345:500].partition(b"\0")[0] if block[257:263] == b"ustar\0" else b""
    name = prefix + b"/" + name if prefix else name
    kind = block[156]
    has_data = kind not in b"123456"  # links and folders may carry a size that means nothing
    return _Header(name, _number(block[124:136]) if has_data else 0, kind)


def _checksum_holds(block: bytes) -> bool:
    try:
        expected = _number(block[148:156])
    except ValueError:
        return False
    rest = block[:148] + b" " * 8 + block[156:]
    signed = sum(byte - 256 if byte > 127 else byte for byte in rest)
    return expected in {sum(rest), signed}


def _number(field: bytes) -> int:
    """Octal text, or binary where the first bit says so.

    Raises:
        ValueError: neither, or negative.
    """
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    text = field.partition(b"\0")[0].strip()
    if field[0] > 0x80 or not all(byte in b"01234567" for byte in text):
        raise ValueError(f"{field[:12]!r} is no number")
    return int(text or b"0", 8)


def _check(header: _Header, *, data: int, size_bytes: int, count: int) -> None:
    if data + header.size_bytes > size_bytes:
        missing = data + header.size_bytes - size_bytes
        raise ValueError(f"a member of {header.size_bytes} bytes, {missing} more than are there")
    if count >= MAX_MEMBERS:
        raise ValueError(f"more than {MAX_MEMBERS} members")


def _extension(source: Readable, header: _Header, data: int) -> bytes:
    if header.size_bytes > _MAX_EXTENSION_BYTES:
        raise ValueError(f"an extended header of {header.size_bytes} bytes")
    return read_exactly(source, data, header.size_bytes)


def _extend(extended: _Header, header: _Header, data: bytes) -> _Header:
    """What a long name or pax records say of the next member."""
    if header.type == _LONG_NAME:
        return replace(extended, name=data.partition(b"\0")[0])
    if header.type != _PAX:
        return extended
    records = _records(data)
    name = records.get(b"path", extended.name)
    size = records.get(b"size")
    if size is not None and not size.isdigit():
        raise ValueError(f"a pax size {size[:20]!r}")
    sparse = extended.sparse or any(key.startswith(b"GNU.sparse.") for key in records)
    return _Header(name, int(size[:20]) if size else extended.size_bytes, 0, sparse)


def _records(data: bytes) -> dict[bytes, bytes]:
    """The ``length key=value`` lines of a pax header."""
    records: dict[bytes, bytes] = {}
    at = 0
    while at < len(data) and data[at : at + 1] != b"\0":
        digits = data[at : at + 20].partition(b" ")[0]
        length = int(digits) if digits.isdigit() else 0
        key, found, value = data[at + len(digits) + 1 : at + length].partition(b"=")
        if not found or length <= len(digits) or data[at + length - 1 : at + length] != b"\n":
            raise ValueError("pax records that do not add up")
        records[key] = value[:-1]
        at += length
    return records


def _with_extension(header: _Header, extended: _Header) -> _Header:
    size = extended.size_bytes if extended.size_bytes >= 0 else header.size_bytes
    return _Header(extended.name or header.name, size, header.type, extended.sparse)
