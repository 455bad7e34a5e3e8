"""Bytes of an object that is a file of this machine. A pipe in its place would wait for ever."""

from __future__ import annotations

import os
import stat
from typing import Final

__all__ = ["file_bytes"]

_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def file_bytes(path: str, start: int, end: int) -> bytes:
    """Bytes `start` to `end` of the file at `path`, fewer where it ends before.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    fd = os.open(path, _FLAGS)
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError("a pipe, a folder or a device lies in its place")
        with open(fd, "rb", closefd=False) as file:
            file.seek(start)
            return file.read(max(0, min(end, facts.st_size) - start))
    finally:
        os.close(fd)
