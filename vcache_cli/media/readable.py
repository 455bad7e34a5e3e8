"""Bytes of a container at any place of it: of a file, or of an object in a bucket."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from vcache_cli.errors import ReadError

if TYPE_CHECKING:
    from typing import BinaryIO

__all__ = ["CutError", "FileBytes", "Readable", "as_file", "read_exactly", "read_most"]

_BUFFER_BYTES: Final = 64 * 1024


class Readable(Protocol):
    """A container, open for reading. One thread at a time."""

    @property
    def size_bytes(self) -> int:
        """Of all of it."""
        ...

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        """Bytes from `offset` on, fewer where it ends before; there may be more after fewer.

        Raises:
            ReadError: they cannot be had.
        """
        ...


class CutError(ReadError):
    """It ends before what was to be read."""


@dataclass(frozen=True, slots=True)
class FileBytes:
    """An open file of this machine."""

    handle: int
    size_bytes: int

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        """See `Readable`."""
        return os.pread(self.handle, size_bytes, offset)


def read_most(source: Readable, offset: int, size_bytes: int) -> bytes:
    """As many bytes at `offset`, fewer only where it ends.

    Raises:
        ReadError: they cannot be had.
    """
    data = source.read_at(offset, size_bytes)
    while len(data) < size_bytes:
        more = source.read_at(offset + len(data), size_bytes - len(data))
        if not more:
            break
        data += more
    return data


def read_exactly(source: Readable, offset: int, size_bytes: int) -> bytes:
    """As many bytes at `offset`.

    Raises:
        CutError: kind ``changed`` where it ends before them.
        ReadError: they cannot be had.
    """
    data = read_most(source, offset, size_bytes)
    if len(data) < size_bytes:
        raise CutError("the file ends inside it", kind="changed", hint="run again when it is whole")
    return data


def as_file(source: Readable) -> BinaryIO:
    """The same bytes as a file of Python, whose failures are those of `source`."""
    if isinstance(source, FileBytes):
        return open(source.handle, "rb", closefd=False)
    return io.BufferedReader(_Raw(source), _BUFFER_BYTES)


class _Raw(io.RawIOBase):
    def __init__(self, source: Readable) -> None:
        super().__init__()
        self._source, self._at = source, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size_bytes}
        self._at = max(0, base[whence] + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        data = self._source.read_at(self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
