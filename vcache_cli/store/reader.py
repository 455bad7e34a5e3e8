"""Reading an entry: strict header, one read, one checksum, arrays from that same buffer."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from vcache_cli.entry import Entry
from vcache_cli.errors import InvalidEntryError
from vcache_cli.header import (
    LENGTH_BYTES,
    Header,
    HeaderLimits,
    HeaderReader,
    header_length,
    parse_header,
)
from vcache_cli.protocols import Layout
from vcache_cli.store.checksum import STEP_BYTES, digits_at, start_checksum
from vcache_cli.store.files import READ_FLAGS, FileOps, OsFiles
from vcache_cli.tensor import Tensor, empty_buffer

__all__ = ["EntryReader", "HeaderFacts", "read_file", "read_header", "read_plain_header"]

_SMALL_BYTES: Final = 1536 * 1024
"""Larger files are read in steps."""
_FIRST_BYTES: Final = 4096
"""Enough for most headers; a longer one takes a second read."""


@dataclass(frozen=True, slots=True, eq=False)
class HeaderFacts:
    """What the header of one file says, and the file's own stat."""

    entry: Entry
    """Without tensors."""
    header: Header
    stat: os.stat_result


class EntryReader:
    """Reads entries of one layout, faster where their headers are alike. Any thread.

    Takes no lock and writes nothing. The tensors of an entry share one buffer that nobody
    writes to.

    Args:
        files: the system calls.
        layout: of the entries.
        scratch: the tensors of an entry last until the same thread reads another, for which no
            memory is taken then: for those who look and keep nothing.
    """

    def __init__(self, files: FileOps, layout: Layout, *, scratch: bool = False) -> None:
        self._files = files
        self._layout = layout
        self._limits = layout.limits
        self._field = layout.checksum_field
        self._required = layout.checksum_required
        self._headers = HeaderReader(layout.limits)
        self._buffer = _Scratch().buffer if scratch else empty_buffer
        self._small_bytes = 0 if scratch else _SMALL_BYTES

    def read(self, path: str, relative: str) -> Entry:
        """The entry in the file at `path`, which lies at `relative` below its store's root.

        Raises:
            InvalidEntryError: the file is not that entry; `finding` says in which way.
            OSError: it could not be opened or read.
            MemoryError: it does not fit into memory.
        """
        return self.read_dated(path, relative)[0]

    def read_dated(self, path: str, relative: str) -> tuple[Entry, float]:
        """As `read`, with the file's mtime, seconds since 1970."""
        files = self._files
        fd = files.open(path, READ_FLAGS)  # not by `_opened`: this is the path of every get
        try:
            facts = files.fstat(fd)
            size_bytes = _entry_size(facts, self._limits)
            if size_bytes > self._small_bytes:
                return self._read_steps(fd, size_bytes, relative), facts.st_mtime
            data = files.read(fd, size_bytes)
            if len(data) < size_bytes:
                data += _rest(files, fd, size_bytes - len(data))
        finally:
            files.close(fd)
        return self._entry(data, relative), facts.st_mtime

    def load(self, path: str) -> bytes:
        """All bytes of the file at `path`, of an allowed size, for `parse` to look at.

        Raises:
            InvalidEntryError: no regular file, larger than allowed, or it became shorter.
            OSError, MemoryError: as `read`.
        """
        with _opened(self._files, path) as fd:
            size_bytes = _entry_size(self._files.fstat(fd), self._limits)
            data = self._files.read(fd, size_bytes)
            return data + _rest(self._files, fd, size_bytes - len(data))

    def parse(self, data: bytes, relative: str) -> Entry:
        """The entry that a file of the bytes `data` would be at `relative`.

        Raises:
            InvalidEntryError: as `read`.
        """
        _check_size(len(data), self._limits)
        return self._entry(data, relative)

    def _entry(self, data: bytes, relative: str) -> Entry:
        """The entry in a small file, which is hashed while it is in the processor's cache."""
        size_bytes, field = len(data), self._field
        end = LENGTH_BYTES + header_length(data[:LENGTH_BYTES], size_bytes, self._limits)
        raw, view = data[LENGTH_BYTES:end], memoryview(data)
        header = self._headers.read(raw, size_bytes - end)
        metadata = header.metadata
        if field is not None and (self._required or field in metadata):
            checksum = start_checksum(view, LENGTH_BYTES + digits_at(raw, field))
            _compare(checksum.hexdigest(), metadata[field])
        return self._layout.unpack(relative, metadata, _tensors(header, view))

    def _read_steps(self, fd: int, size_bytes: int, relative: str) -> Entry:
        """The entry in a large file, each step of which is hashed once it is read."""
        files, field, buffer = self._files, self._field, self._buffer(size_bytes)
        have = _fill(files, fd, buffer[:STEP_BYTES])
        prefix = bytes(buffer[:LENGTH_BYTES])
        end = LENGTH_BYTES + header_length(prefix, size_bytes, self._limits)
        if end > have:
            have += _fill(files, fd, buffer[have:end])
        raw = bytes(buffer[LENGTH_BYTES:end])
        header = self._headers.read(raw, size_bytes - end)
        if field is not None and (self._required or field in header.metadata):
            checksum = start_checksum(buffer[:have], LENGTH_BYTES + digits_at(raw, field))
            _read_hashing(files, fd, buffer[have:], checksum.update)
            _compare(checksum.hexdigest(), header.metadata[field])
        else:
            _fill(files, fd, buffer[have:])
        tensors = _tensors(header, buffer.toreadonly())
        return self._layout.unpack(relative, header.metadata, tensors)


class _Scratch(threading.local):
    """Memory of each thread that is used again and again; as much as the largest entry took."""

    def __init__(self) -> None:
        self._memory = memoryview(bytearray(STEP_BYTES))

    def buffer(self, size_bytes: int) -> memoryview:
        """Of that size; what is in it is left over."""
        if len(self._memory) < size_bytes:
            self._memory = memoryview(bytearray(size_bytes))
        return self._memory[:size_bytes]


def read_file(files: FileOps, path: str, relative: str, layout: Layout) -> Entry:
    """One entry, as `EntryReader.read`.

    Raises:
        InvalidEntryError, OSError, MemoryError: as there.
    """
    return EntryReader(files, layout).read(path, relative)


def read_header(path: str | os.PathLike[str], relative: str, layout: Layout) -> HeaderFacts:
    """What the header of the file at `path` says; its tensors are not read, nor its checksum.

    Raises:
        InvalidEntryError: the header is not that of the entry of `relative`.
        OSError: it could not be opened or read.
    """
    header, facts = read_plain_header(path, layout.limits)
    return HeaderFacts(layout.unpack(relative, header.metadata, {}), header, facts)


def read_plain_header(
    path: str | os.PathLike[str], limits: HeaderLimits
) -> tuple[Header, os.stat_result]:
    """The header of the file at `path`, whatever it is the header of.

    Raises:
        InvalidEntryError: it is none within `limits`.
        OSError: it could not be opened or read.
    """
    files = OsFiles()
    with _opened(files, path) as fd:
        facts = files.fstat(fd)
        size_bytes = _entry_size(facts, limits)
        raw = bytearray(min(size_bytes, _FIRST_BYTES))
        _fill(files, fd, memoryview(raw))
        end = LENGTH_BYTES + header_length(bytes(raw[:LENGTH_BYTES]), size_bytes, limits)
        rest = bytearray(max(0, end - len(raw)))
        _fill(files, fd, memoryview(rest))
    raw = (raw + rest)[LENGTH_BYTES:end]
    return parse_header(bytes(raw), size_bytes - end, limits), facts


@contextlib.contextmanager
def _opened(files: FileOps, path: str | os.PathLike[str]) -> Iterator[int]:
    fd = files.open(os.fspath(path), READ_FLAGS)
    try:
        yield fd
    finally:
        with contextlib.suppress(OSError):  # read only: nothing can be lost
            files.close(fd)


def _entry_size(facts: os.stat_result, limits: HeaderLimits) -> int:
    if not stat.S_ISREG(facts.st_mode):
        raise InvalidEntryError("not a regular file", finding="foreign_file")
    _check_size(facts.st_size, limits)
    return facts.st_size


def _check_size(size_bytes: int, limits: HeaderLimits) -> None:
    if size_bytes > limits.max_file_bytes:
        raise InvalidEntryError(
            f"{size_bytes} bytes, at most {limits.max_file_bytes} are allowed", finding="size"
        )


def _read_hashing(
    files: FileOps, fd: int, view: memoryview, update: Callable[[memoryview], None]
) -> None:
    """Fill `view`, each step hashed while it is in the processor's cache."""
    readv = files.readv
    for start in range(0, len(view), STEP_BYTES):
        step = view[start : start + STEP_BYTES]
        count = readv(fd, (step,))
        if count != len(step):
            _fill(files, fd, step[count:])
        update(step)


def _rest(files: FileOps, fd: int, size_bytes: int) -> bytes:
    """What a read left over."""
    rest = bytearray(size_bytes)
    _fill(files, fd, memoryview(rest))
    return bytes(rest)


def _fill(files: FileOps, fd: int, view: memoryview) -> int:
    """Read until `view` is full; its bytes."""
    wanted = len(view)
    have = files.readv(fd, (view,))
    while have < wanted:
        count = files.readv(fd, (view[have:],))
        if count <= 0:
            raise InvalidEntryError("the file became shorter while it was read", finding="size")
        have += count
    return wanted


def _compare(actual: str, recorded: str) -> None:
    if actual != recorded:
        raise InvalidEntryError(
            f"checksum `{recorded[:32]}` recorded, `{actual}` computed", finding="checksum"
        )


def _tensors(header: Header, buffer: memoryview) -> dict[str, Tensor]:
    start, tensors = header.data_start, {}
    for spec in header.tensors:
        data = buffer[start + spec.begin : start + spec.end]
        tensors[spec.name] = Tensor(spec.dtype, spec.shape, data)
    return tensors
