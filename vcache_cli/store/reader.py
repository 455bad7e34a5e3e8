"""Reading an entry: strict header, one read, one checksum, arrays from that same buffer."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from vcache_cli.entry import Entry
from vcache_cli.errors import InvalidEntryError
from vcache_cli.header import LENGTH_BYTES, Header, header_length, parse_header
from vcache_cli.protocols import Layout
from vcache_cli.store.checksum import STEP_BYTES, Checksum, digits_at
from vcache_cli.store.files import READ_FLAGS, FileOps, OsFiles
from vcache_cli.tensor import Tensor, empty_buffer

__all__ = ["HeaderFacts", "read_file", "read_header"]

_FIRST_BYTES: Final = 4096
"""Enough for most headers; a longer one takes a second read."""


@dataclass(frozen=True, slots=True, eq=False)
class HeaderFacts:
    """What the header of one file says, and the file's own stat."""

    entry: Entry
    """Without tensors."""
    header: Header
    stat: os.stat_result


def read_file(files: FileOps, path: str | os.PathLike[str], relative: str, layout: Layout) -> Entry:
    """The entry in the file at `path`, which lies at `relative` below its store's root.

    Takes no lock and writes nothing; the tensors share one buffer that nobody writes to.

    Raises:
        InvalidEntryError: the file is not that entry; `finding` says in which way.
        OSError: it could not be opened or read.
        MemoryError: it does not fit into memory.
    """
    with _opened(files, path) as fd:
        buffer, header = _checked(files, fd, layout)
    return layout.unpack(relative, header.metadata, _tensors(header, buffer.toreadonly()))


def read_header(path: str | os.PathLike[str], relative: str, layout: Layout) -> HeaderFacts:
    """What the header of the file at `path` says; its tensors are not read, nor its checksum.

    Raises:
        InvalidEntryError: the header is not that of the entry of `relative`.
        OSError: it could not be opened or read.
    """
    files = OsFiles()
    with _opened(files, path) as fd:
        facts = files.fstat(fd)
        size_bytes = _entry_size(facts, layout)
        raw = bytearray(min(size_bytes, _FIRST_BYTES))
        _fill(files, fd, memoryview(raw))
        end = LENGTH_BYTES + header_length(bytes(raw[:LENGTH_BYTES]), size_bytes, layout.limits)
        rest = bytearray(max(0, end - len(raw)))
        _fill(files, fd, memoryview(rest))
    raw = (raw + rest)[LENGTH_BYTES:end]
    header = parse_header(bytes(raw), size_bytes - end, layout.limits)
    return HeaderFacts(layout.unpack(relative, header.metadata, {}), header, facts)


@contextlib.contextmanager
def _opened(files: FileOps, path: str | os.PathLike[str]) -> Iterator[int]:
    fd = files.open(os.fspath(path), READ_FLAGS)
    try:
        yield fd
    finally:
        with contextlib.suppress(OSError):  # read only: nothing can be lost
            files.close(fd)


def _entry_size(facts: os.stat_result, layout: Layout) -> int:
    if not stat.S_ISREG(facts.st_mode):
        raise InvalidEntryError("not a regular file", finding="foreign_file")
    if facts.st_size > layout.limits.max_file_bytes:
        raise InvalidEntryError(
            f"{facts.st_size} bytes, at most {layout.limits.max_file_bytes} are allowed",
            finding="size",
        )
    return facts.st_size


def _checked(files: FileOps, fd: int, layout: Layout) -> tuple[memoryview, Header]:
    """The whole file and its header; both are checked before anything is made of them."""
    limits = layout.limits
    size_bytes = _entry_size(files.fstat(fd), layout)
    buffer = empty_buffer(size_bytes)
    have = _fill(files, fd, buffer[:STEP_BYTES])
    end = LENGTH_BYTES + header_length(bytes(buffer[:LENGTH_BYTES]), size_bytes, limits)
    have += _fill(files, fd, buffer[have:end])
    raw = bytes(buffer[LENGTH_BYTES:end])
    header = parse_header(raw, size_bytes - end, limits)
    if layout.checksum_field is None:
        _fill(files, fd, buffer[have:])
        return buffer, header
    digits = LENGTH_BYTES + digits_at(raw, layout.checksum_field)
    checksum = Checksum(buffer[:have], digits)
    for start in range(have, size_bytes, STEP_BYTES):
        step = buffer[start : start + STEP_BYTES]
        _fill(files, fd, step)
        checksum.update(step)
    _compare(checksum.hexdigest(), header.metadata[layout.checksum_field])
    return buffer, header


def _fill(files: FileOps, fd: int, view: memoryview) -> int:
    """Read until `view` is full; its bytes."""
    wanted, have = len(view), 0
    while have < wanted:
        count = files.readv(fd, (view[have:],))
        if count <= 0:
            raise InvalidEntryError("the file became shorter while it was read", finding="size")
        have += count
    return wanted


def _compare(actual: str, recorded: str) -> None:
    if actual != recorded:
        raise InvalidEntryError(
            f"checksum {recorded[:32]!r} recorded, {actual} computed", finding="checksum"
        )


def _tensors(header: Header, buffer: memoryview) -> Mapping[str, Tensor]:
    start = header.data_start
    return {
        spec.name: Tensor(spec.dtype, spec.shape, buffer[start + spec.begin : start + spec.end])
        for spec in header.tensors
    }
