"""Parts of containers that lie in the file as they are: one open, one bounded read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vcache_cli.errors import ReadError
from vcache_cli.items import FileStat
from vcache_cli.media.read import HEAD_BYTES, check_size, opened

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MAX_MEMBERS", "Place", "StoredPart", "is_hidden", "opened_container", "read_exactly"]

MAX_MEMBERS: Final = 10_000_000
"""Of one container."""


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A run of bytes of the container."""

    name: str
    offset: int
    size_bytes: int

    @property
    def locator(self) -> str:
        """An archive may hold several members of one name."""
        return f"{self.name}#{self.offset}"

    def read(
        self, path: str, stat: FileStat | None, limit_of: Callable[[bytes], int | None]
    ) -> bytes | None:
        """See `items.Part`."""
        with opened_container(path, stat) as handle:
            head = os.pread(handle, min(HEAD_BYTES, self.size_bytes), self.offset)
            max_bytes = limit_of(head)
            if max_bytes is None:
                return None
            check_size(self.size_bytes, max_bytes)
            return read_exactly(handle, self.size_bytes, self.offset)


@dataclass(frozen=True, slots=True)
class Place:
    """A part of which there is nothing to read, only something to tell."""

    name: str

    @property
    def locator(self) -> str:
        """As `name`."""
        return self.name

    @property
    def size_bytes(self) -> int:
        """None."""
        return 0

    def read(
        self, path: str, stat: FileStat | None, limit_of: Callable[[bytes], int | None]
    ) -> bytes | None:
        """Nothing."""
        return None


@contextmanager
def opened_container(path: str, stat: FileStat | None, *, may_grow: bool = False) -> Iterator[int]:
    """A handle of the container as it was when its parts were found.

    Args:
        path: of the container.
        stat: what it was; None where that does not matter.
        may_grow: lines are added to a log all the time, and those before stay where they are.

    Raises:
        ReadError: see `opened`; kind ``changed`` where it is another one by now.
    """
    with opened(path) as (handle, status):
        now = FileStat.of(status)
        same = stat is None or now == stat
        if stat is not None and may_grow:
            same = now.size_bytes >= stat.size_bytes and _identity(now) == _identity(stat)
        if not same:
            raise ReadError(
                "the file changed after its parts were found",
                kind="changed",
                hint="run again when it is whole",
            )
        yield handle


def _identity(stat: FileStat) -> tuple[int, int]:
    return stat.inode, stat.device


def read_exactly(handle: int, size_bytes: int, offset: int) -> bytes:
    """As many bytes at `offset`.

    Raises:
        ReadError: kind ``changed`` where the file ends before them.
    """
    data = os.pread(handle, size_bytes, offset)
    while len(data) < size_bytes:
        more = os.pread(handle, size_bytes - len(data), offset + len(data))
        if not more:
            raise ReadError(
                "the file ends inside it", kind="changed", hint="run again when it is whole"
            )
        data += more
    return data


def is_hidden(name: str) -> bool:
    """True for members that a walk of the same folder would leave out.

    >>> is_hidden("a/.b/c.jpg"), is_hidden("__MACOSX/a.jpg"), is_hidden("./../a.jpg")
    (True, True, False)
    """
    parts = name.split("/")
    return any(
        part == "__MACOSX" or (part.startswith(".") and part not in {".", ".."}) for part in parts
    )
