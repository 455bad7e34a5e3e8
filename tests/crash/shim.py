"""Stands before the system calls that a process makes on files below one folder.

It logs each, and on request dies before one, fails one, or does less than asked. What SQLite does
is not seen: it calls the system by itself.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from vcache_cli.store.files import OsFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Final

__all__ = ["CHANGING", "ERRNOS", "KILLED", "Act", "Call", "Die", "Fail", "Shim", "Short"]

KILLED: Final = 137
"""What a process that `Die` ended exits with."""
CHANGING: Final = frozenset(
    {
        *("create", "write", "fchmod", "fchown", "fsync", "rename", "link"),
        *("unlink", "mkdir", "rmdir", "utime"),
    }
)
"""Calls that leave something else on the disk."""
_OF_DESCRIPTOR: Final = (
    *("write", "read", "readv", "pread", "fchmod", "fchown", "fsync", "fstat", "close"),
)
_OF_PATH: Final = ("unlink", "mkdir", "rmdir", "utime", "lstat", "scandir", "listdir")
_OF_TWO: Final = ("rename", "replace", "link")
_NEW: Final = frozenset({"create", "mkdir", "rename", "link"})
_LOOKING: Final = frozenset(
    {"open", "read", "readv", "pread", "fstat", "lstat", "scandir", "listdir"}
)
ERRNOS: Final = {
    errno.ENOSPC: _NEW | {"write", "fsync", "fchmod", "close"},
    errno.EDQUOT: _NEW | {"write", "fsync", "close"},
    errno.EIO: CHANGING | _LOOKING,
    errno.EROFS: CHANGING - {"fsync"},
    errno.EMFILE: frozenset({"open", "create", "scandir", "listdir"}),
    errno.ESTALE: CHANGING | _LOOKING,
}
"""Errors, and the calls that a system may answer with them."""


@dataclass(slots=True)
class Call:
    """One call on something below the folder."""

    name: str
    """As the system names it; ``create`` for an `open` that makes a file, ``rename`` for both."""
    path: str
    """Below the folder; empty for the folder itself. Of a descriptor: as it was opened."""
    target: str = ""
    """The second path."""
    data: bytes = b""
    """What a write was given, or wrote."""
    number: int = 0
    """Of the descriptor's opening: tells files apart that had the same name."""
    begun: int = 0
    ended: int = 0
    """Moments, in one count for all threads; 0: it has not ended, or has failed."""

    @property
    def site(self) -> str:
        """Name and kind of place, the same in every run."""
        return f"{self.name} {_role(self.path)}"


def _role(path: str) -> str:
    parts = path.split("/")
    if parts[0] == ".vcache":
        return "/".join([*parts[:2], "*"] if len(parts) > 2 else parts)
    if path in {"", "CACHEDIR.TAG"}:
        return path or "."
    return ("shard", "entry")[len(parts) > 1]


class Act(Protocol):
    """What is to happen before a call."""

    def __call__(self, number: int, call: Call) -> int | None:
        """Raise or die here; None lets it happen, a number limits how much is done.

        Args:
            number: of the call, from 0, in the order of all threads.
            call: what is asked for.
        """
        ...


@dataclass(frozen=True, slots=True)
class Die:
    """Ends the process before the changing call of that number, as a kill does."""

    at: int

    def __call__(self, number: int, call: Call) -> int | None:
        """See `Act`; numbers count changing calls."""
        del call
        if number == self.at:
            os._exit(KILLED)
        return None


class Fail:
    """Fails one call, the `nth` of its site, or from there on every call that `errnos` allows."""

    def __init__(self, site: str, error: int, *, nth: int = 0, forever: bool = False) -> None:
        self._site, self._error, self._forever = site, error, forever
        self._left = nth + 1
        self.struck = 0
        """Calls that failed."""

    def __call__(self, number: int, call: Call) -> int | None:
        """See `Act`."""
        del number
        if call.site == self._site:
            self._left -= 1
        again = self._forever and self.struck and call.name in ERRNOS[self._error]
        if (call.site == self._site and self._left == 0) or again:
            self.struck += 1
            named = (call.path or ".",) if call.name not in _OF_DESCRIPTOR else ()
            raise OSError(self._error, os.strerror(self._error), *named)
        return None


class Short:
    """Reads and writes a few bytes at a time."""

    def __init__(self, most: int) -> None:
        self._most = most

    def __call__(self, number: int, call: Call) -> int | None:
        """See `Act`."""
        del number
        return self._most if call.name in {"read", "readv", "pread", "write"} else None


class Shim:
    """Stands before the calls while inside `installed`.

    Args:
        folder: what happens elsewhere is not looked at.
        act: asked before each call.
        dying: `act` counts changing calls alone.
    """

    def __init__(self, folder: Path, act: Act | None = None) -> None:
        self.log: list[Call] = []
        self._base = os.fspath(folder)
        self._act = act
        self._opened: dict[int, tuple[str, int]] = {}
        self._moments, self._files = itertools.count(1), itertools.count(1)
        self._lock = threading.Lock()
        self._changing = itertools.count()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """In this process, in all of its threads, until it is left."""
        places: list[tuple[object, str, object]] = []
        for name in ("open", *_OF_DESCRIPTOR, *_OF_PATH, *_OF_TWO):
            real: Callable[..., Any] = getattr(os, name)
            watched = self._watched(name, real)
            places.append((os, name, real))
            setattr(os, name, watched)
            if getattr(OsFiles, name, None) is real:
                places.append((OsFiles, name, staticmethod(real)))
                setattr(OsFiles, name, staticmethod(watched))
        try:
            yield
        finally:
            for owner, name, before in places:
                setattr(owner, name, before)

    def moment(self) -> int:
        """Now: later than all that has ended."""
        with self._lock:
            return next(self._moments)

    def sites(self, names: frozenset[str]) -> Counter[str]:
        """Sites of the calls of these names, and how often each was met."""
        return Counter(call.site for call in self.log if call.name in names)

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **options: Any) -> Any:  # noqa: ANN401  stands for each call
            call = self._call(name, args, options)
            if call is None:
                return real(*args, **options)
            return self._do(call, real, args, options)

        return watched

    def _do(
        self, call: Call, real: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:  # noqa: ANN401  what the call gives
        with self._lock:
            call.begun = next(self._moments)
            self.log.append(call)
            number = next(self._changing) if call.name in CHANGING else -1
            try:
                most = self._act(number, call) if self._act else None
            except OSError:
                if call.name == "close":  # the descriptor is gone all the same
                    self._opened.pop(args[0], None)
                    real(*args)
                raise
        if call.name == "close":
            self._opened.pop(args[0], None)
        result = real(*_less(call.name, args, most), **options)
        with self._lock:
            if call.name in {"open", "create"}:
                call.number = next(self._files)
                self._opened[result] = (call.path, call.number)
            if call.name == "write":
                call.data = bytes(memoryview(args[1]).cast("B")[:result])
            call.ended = next(self._moments)
        return result

    def _call(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Call | None:
        """What it is about; None where that lies elsewhere."""
        if name in _OF_DESCRIPTOR:
            path, number = self._opened.get(args[0], (None, 0))
            return None if path is None else Call(name, path, number=number)
        if name in {"scandir", "listdir"} and (not args or isinstance(args[0], int)):
            path = self._opened.get(args[0], (None, 0))[0] if args else None
            return None if path is None else Call(name, path)
        above = options.get("dir_fd", options.get("src_dir_fd"))
        path = self._below(args[0], above)
        if path is None:
            return None
        if name == "open":
            return Call("create" if args[1] & os.O_CREAT else "open", path)
        if name in _OF_TWO:
            target = self._below(args[1], options.get("dst_dir_fd"))
            return Call("rename" if name == "replace" else name, path, target or "")
        return Call(name, path)

    def _below(self, path: object, above: int | None) -> str | None:
        text = os.fsdecode(os.fspath(path))  # type: ignore[call-overload]
        if above is not None and not text.startswith("/"):
            folder = self._opened.get(above, (None, 0))[0]
            return None if folder is None else f"{folder}/{text}".lstrip("/")
        if text == self._base:
            return ""
        return text[len(self._base) + 1 :] if text.startswith(f"{self._base}/") else None


def _less(name: str, args: tuple[Any, ...], most: int | None) -> tuple[Any, ...]:
    """The arguments of a call that does at most that much."""
    if most is None:
        return args
    if name == "write":
        return (args[0], memoryview(args[1]).cast("B")[:most])
    if name == "readv":
        return (args[0], [memoryview(args[1][0]).cast("B")[:most]])
    return (args[0], min(args[1], most), *args[2:])
