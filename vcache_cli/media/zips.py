"""Members of a zip, by its directory alone: read piece by piece, none of it kept.

Entries whose data would overlap are refused: that is how a small file unpacks to petabytes.
"""

from __future__ import annotations

import os
import struct
import zlib
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vcache_cli.errors import ReadError
from vcache_cli.items import Trouble
from vcache_cli.media.parts import MAX_MEMBERS, opened_container
from vcache_cli.media.read import HEAD_BYTES, check_size
from vcache_cli.media.readable import CutError, read_exactly, read_most

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vcache_cli.items import FileStat
    from vcache_cli.media.readable import Readable

__all__ = ["ZipPart", "looks_like_zip", "zip_parts"]

_ENTRY: Final = struct.Struct("<4s6H3I5H2I")
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_END: Final = struct.Struct("<4s4H2IH")
_END_64_PLACE: Final = struct.Struct("<4sIQI")
_END_64: Final = struct.Struct("<4sQ2H2I4Q")
_MAX_TAIL: Final = _END.size + 65_535
_CHUNK_BYTES: Final = 1024 * 1024
_HEAD_BYTES: Final = 4096
"""Of a packed member: enough to unpack its first bytes."""
_STORED, _DEFLATED = 0, 8
_METHODS: Final = {9: "deflate64", 12: "bzip2", 14: "LZMA", 93: "zstd", 95: "xz", 99: "AES"}
_AGAIN: Final = "copy or download it again"
_SAME_PLACE: Final = Trouble(
    "damaged", "its data is that of another member too", hint="make the archive anew"
)


@dataclass(frozen=True, slots=True)
class ZipPart:
    """A member of a zip: where its local header lies, and what the directory says of it."""

    name: str
    offset: int
    size_bytes: int
    """In the archive."""
    full_bytes: int
    """Unpacked, as declared; never believed."""
    method: int
    crc: int
    end: int
    """Where the next member, or the directory, begins."""

    @property
    def locator(self) -> str:
        """An archive may hold several members of one name."""
        return f"{self.name}#{self.offset}"

    def read(
        self, path: str, stat: FileStat | None, limit_of: Callable[[bytes], int | None]
    ) -> bytes | None:
        """See `items.Part`."""
        with opened_container(path, stat, at_once=self.end - self.offset) as source:
            start = self._start(source)
            packed = read_most(source, start, min(self.size_bytes, _HEAD_BYTES))
            max_bytes = limit_of(self._unpacked(packed, HEAD_BYTES)[:HEAD_BYTES])
            if max_bytes is None:
                return None
            check_size(self.full_bytes, max_bytes)
            check_size(self.size_bytes, max_bytes + 65_536)
            return self._whole(read_exactly(source, start, self.size_bytes))

    def _start(self, source: Readable) -> int:
        local = _LOCAL.unpack(read_exactly(source, self.offset, _LOCAL.size))
        start: int = self.offset + _LOCAL.size + local[-2] + local[-1]
        if local[0] != b"PK\3\4":
            raise ReadError("no member where the directory says", kind="damaged", hint=_AGAIN)
        if start + self.size_bytes > self.end:
            raise ReadError(
                "its data would overlap that of the next member", kind="damaged", hint=_AGAIN
            )
        return start

    def _whole(self, packed: bytes) -> bytes:
        data = self._unpacked(packed, self.full_bytes + 1)
        if len(data) != self.full_bytes or zlib.crc32(data) != self.crc:
            raise ReadError("its data is not what the directory says", kind="damaged", hint=_AGAIN)
        return data

    def _unpacked(self, packed: bytes, max_bytes: int) -> bytes:
        if self.method == _STORED:
            return packed
        try:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, max_bytes)
        except zlib.error as error:
            raise ReadError(f"cannot be unpacked: {error}", kind="damaged", hint=_AGAIN) from error


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    flags: int
    method: int
    crc: int
    size_bytes: int
    full_bytes: int
    offset: int


@dataclass(frozen=True, slots=True)
class _Directory:
    offset: int
    size_bytes: int
    count: int


def looks_like_zip(head: bytes) -> bool:
    """True for an archive of one or more members, or of none."""
    return head[:4] in {b"PK\3\4", b"PK\5\6"}


def zip_parts(source: Readable) -> Iterator[ZipPart | tuple[str, Trouble]]:
    """Each member in the directory's order, or its name and why it is none; damage at the end.

    Raises:
        ReadError: it cannot be read.
    """
    try:
        directory = _directory(source)
        starts = array("Q", sorted(entry.offset for entry in _entries(source, directory)))
        for entry in _entries(source, directory):
            if entry.name.endswith("/"):
                continue
            following = bisect_right(starts, entry.offset)
            end = starts[following] if following < len(starts) else directory.offset
            alone = following == 1 or starts[following - 2] != entry.offset
            yield _part(entry, end) if alone else (entry.name, _SAME_PLACE)
    except (CutError, ValueError, struct.error) as error:
        yield "", Trouble("damaged", f"damaged: {error}", hint=_AGAIN)


def _part(entry: _Entry, end: int) -> ZipPart | tuple[str, Trouble]:
    if entry.flags & 1:
        return entry.name, Trouble("encrypted", "encrypted", hint="unpack the archive yourself")
    if entry.method not in {_STORED, _DEFLATED}:
        told = _METHODS.get(entry.method, f"method {entry.method}")
        return entry.name, Trouble(
            "unsupported_packing", f"packed with {told}", hint="pack it anew, with deflate"
        )
    return ZipPart(
        entry.name,
        entry.offset,
        entry.size_bytes,
        entry.full_bytes,
        entry.method,
        entry.crc,
        end,
    )


def _directory(source: Readable) -> _Directory:
    tail_bytes = min(source.size_bytes, _MAX_TAIL)
    tail = read_exactly(source, source.size_bytes - tail_bytes, tail_bytes)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END.size:
        raise ValueError("no directory at its end; it may be cut off")
    end = source.size_bytes - tail_bytes + at
    _, _, _, _, count, length, offset, _ = _END.unpack_from(tail, at)
    if count == 0xFFFF or 0xFFFFFFFF in {length, offset}:
        found = _directory_64(source, end)
        if found:
            return found
    if offset + length > end:
        raise ValueError("its directory lies outside of it")
    return _counted(_Directory(offset, length, count))


def _directory_64(source: Readable, end: int) -> _Directory | None:
    if end < _END_64_PLACE.size:
        return None
    place = read_exactly(source, end - _END_64_PLACE.size, _END_64_PLACE.size)
    magic, _, at, _ = _END_64_PLACE.unpack(place)
    if magic != b"PK\6\7":
        return None
    if at + _END_64.size > end:
        raise ValueError("its directory lies outside of it")
    fields = _END_64.unpack(read_exactly(source, at, _END_64.size))
    if fields[0] != b"PK\6\6" or fields[8] + fields[9] > at:
        raise ValueError("its directory lies outside of it")
    return _counted(_Directory(fields[9], fields[8], fields[7]))


def _counted(directory: _Directory) -> _Directory:
    if directory.count > MAX_MEMBERS:
        raise ValueError(f"{directory.count} members, more than {MAX_MEMBERS}")
    return directory


def _entries(source: Readable, directory: _Directory) -> Iterator[_Entry]:
    """Each entry of the directory; the rest of it is read as it is needed."""
    at, end = directory.offset, directory.offset + directory.size_bytes
    chunk, used = b"", 0
    for _ in range(directory.count):
        while len(chunk) - used < (need := _entry_bytes(chunk, used)):
            if at >= end:
                raise ValueError("its directory ends early")
            more = read_exactly(source, at, min(_CHUNK_BYTES, end - at))
            chunk, used, at = chunk[used:] + more, 0, at + len(more)
        entry = _entry(chunk[used : used + need])
        if entry.offset >= directory.offset:
            raise ValueError("a member that lies behind its directory")
        yield entry
        used += need


def _entry_bytes(chunk: bytes, used: int) -> int:
    if len(chunk) - used < _ENTRY.size:
        return _ENTRY.size
    name, extra, comment = struct.unpack_from("<3H", chunk, used + 28)
    return int(_ENTRY.size + name + extra + comment)


def _entry(data: bytes) -> _Entry:
    fields = _ENTRY.unpack_from(data)
    if fields[0] != b"PK\1\2":
        raise ValueError("its directory is not in order")
    flags, method, crc, packed, full = fields[3], fields[4], fields[7], fields[8], fields[9]
    name_bytes, extra_bytes, offset = fields[10], fields[11], fields[16]
    name = data[_ENTRY.size : _ENTRY.size + name_bytes]
    extra = data[_ENTRY.size + name_bytes : _ENTRY.size + name_bytes + extra_bytes]
    full, packed, offset = _wide(extra, full, packed, offset)
    return _Entry(os.fsdecode(name.replace(b"\0", b"")), flags, method, crc, packed, full, offset)


def _wide(extra: bytes, *values: int) -> tuple[int, ...]:
    """The values, those that have no room in 32 bits from the entry's zip64 field."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            field = extra[at + 4 : at + 4 + length]
            wide = iter(struct.unpack(f"<{len(field) // 8}Q", field[: len(field) // 8 * 8]))
            return tuple(next(wide, each) if each == 0xFFFFFFFF else each for each in values)
        at += 4 + length
    return values
