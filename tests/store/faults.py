"""System calls that fail, or do less than asked, at a chosen step."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from vcache_cli.store.files import OsFiles

__all__ = ["CHANGING", "FaultyFiles", "ShortFiles"]

CHANGING = ("open", "write", "fchmod", "fsync", "close", "replace", "link", "mkdir", "fstat")
"""Calls of a put, in which it may fail."""


class FaultyFiles(OsFiles):
    """Logs each call, and fails in the one numbered `at`, counted from 0.

    `open` is failed before it happens and `close` after: as the system does.
    """

    def __init__(self, at: int = -1, error: int = 0) -> None:
        self.log: list[tuple[str, str]] = []
        self._at, self._error = at, error
        self._paths: dict[int, str] = {}
        for name in CHANGING:
            setattr(self, name, self._watched(name, getattr(OsFiles, name)))

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any) -> Any:  # noqa: ANN401  stands for each of the calls
            subject = self._paths.get(args[0], "") if isinstance(args[0], int) else args[0]
            self.log.append((name, subject))
            fails = len(self.log) - 1 == self._at
            if fails and name == "close":
                call(*args)
            if fails:
                raise OSError(self._error, os.strerror(self._error))
            result = call(*args)
            if name == "open":
                self._paths[result] = args[0]
            return result

        return watched


class ShortFiles(OsFiles):
    """Reads and writes at most `most` bytes at a time, as a pipe or a signal makes it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.write = self._write  # type: ignore[assignment]
        self.read = self._read
        self.readv = self._readv  # type: ignore[assignment]

    def _write(self, fd: int, data: bytes | memoryview) -> int:
        return os.write(fd, memoryview(data)[: self._most])

    def _read(self, fd: int, count: int) -> bytes:
        return os.read(fd, min(count, self._most))

    def _readv(self, fd: int, buffers: tuple[memoryview, ...]) -> int:
        return os.readv(fd, [buffers[0][: self._most]])
