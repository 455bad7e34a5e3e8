"""Reading one item: one open, one read, no surprise of size or type."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vcache_cli.buckets import is_url
from vcache_cli.errors import ReadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Final

    from vcache_cli.items import MediaItem

__all__ = ["HEAD_BYTES", "check_size", "opened", "read_error", "read_if", "read_item"]

HEAD_BYTES: Final = 64
"""Enough to tell the kind of an item."""

# O_NONBLOCK: opening a FIFO that nobody writes to would wait for ever.
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

_KINDS: Final = {
    errno.ENOENT: ("not_found", "no such file"),
    errno.ENOTDIR: ("not_found", "no such file: a part of the path is no folder"),
    errno.ELOOP: ("not_found", "the link leads in a circle"),
    errno.ENAMETOOLONG: ("not_found", "no such file: the name is too long"),
    errno.EACCES: ("permission", "permission denied"),
    errno.EPERM: ("permission", "permission denied"),
    errno.ENXIO: ("not_a_file", "a socket or a device, not a file"),
}

_HINTS: Final = {
    "not_found": "correct the name, or leave it out",
    "not_a_file": "name a file, or leave it out",
    "permission": "let the user who runs this read it",
    "io_error": "try again, and check the disk",
}


def read_item(item: MediaItem, *, max_bytes: int) -> bytes:
    """All bytes of the item.

    Raises:
        ReadError: kind ``not_found``, ``permission``, ``io_error``, ``too_large``,
            ``not_a_file`` or ``changed`` (written to while we read).
    """
    return read_if(item, lambda _head: max_bytes) or b""


def read_if(item: MediaItem, limit_of: Callable[[bytes], int | None]) -> bytes | None:
    """All bytes of the item, if its first bytes say so; one open either way.

    Args:
        item: where to read.
        limit_of: given the first 64 bytes or fewer, the most bytes to read; None to read no more.

    Raises:
        ReadError: as `read_item`; of an object in a bucket also as `buckets.Bucket` says.
    """
    if item.part is not None:
        return item.part.read(item.path, item.stat, limit_of)
    if is_url(item.path):
        from vcache_cli.media.objects import read_object

        return read_object(item, limit_of)
    with opened(item.path) as (handle, before):
        max_bytes = limit_of(os.pread(handle, HEAD_BYTES, 0))
        if max_bytes is None:
            return None
        check_size(before.st_size, max_bytes)
        data = _read_all(handle, before.st_size)
        after = os.fstat(handle)
    written = (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)
    if written or len(data) != after.st_size:
        raise ReadError(
            "the file changed while it was read", kind="changed", hint="run again when it is whole"
        )
    return data


def check_size(size_bytes: int, max_bytes: int) -> None:
    """Refuse what is too large, before it is read.

    Raises:
        ReadError: kind ``too_large``.
    """
    if size_bytes > max_bytes:
        raise ReadError(
            f"{size_bytes} bytes, more than the limit of {max_bytes}",
            kind="too_large",
            hint="leave it out, save a smaller copy of it, or raise it with `--max-file-size`",
        )


@contextmanager
def opened(path: str) -> Iterator[tuple[int, os.stat_result]]:
    """A handle of the file at `path`, and its facts.

    Raises:
        ReadError: kind ``not_found``, ``permission``, ``io_error`` or ``not_a_file``.
    """
    try:
        handle = os.open(path, _FLAGS)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise read_error("not_a_file", f"{_type_name(status.st_mode)}, not a file")
            yield handle, status
        finally:
            os.close(handle)
    except OSError as error:
        text = (error.strerror or str(error)).lower()
        kind, message = _KINDS.get(error.errno or 0, ("io_error", text))
        raise read_error(kind, message) from error
    except ValueError as error:  # a NUL inside the path
        raise read_error("not_found", "no such file: the name holds a NUL") from error


def read_error(kind: str, message: str) -> ReadError:
    """The error of a `kind` that has a hint of its own here."""
    return ReadError(message, kind=kind, hint=_HINTS[kind])


def _read_all(handle: int, size_bytes: int) -> bytes:
    """At most one byte more than was announced, so that growth shows."""
    data = os.read(handle, size_bytes + 1)
    while len(data) < size_bytes and (more := os.read(handle, size_bytes + 1 - len(data))):
        data += more
    return data


def _type_name(mode: int) -> str:
    tests = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((name for test, name in tests if test(mode)), "a device")
