"""Parts of containers that lie in the file as they are: one open, one bounded read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vcache_cli.buckets import is_url
from vcache_cli.errors import ReadError
from vcache_cli.items import FileStat
from vcache_cli.media.object_bytes import object_bytes
from vcache_cli.media.object_parts import part_bytes
from vcache_cli.media.read import HEAD_BYTES, check_size, opened
from vcache_cli.media.readable import FileBytes, Readable, read_exactly

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MAX_MEMBERS", "Place", "StoredPart", "is_hidden", "opened_container", "opened_whole"]

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
        with opened_container(path, stat, at_once=self.size_bytes) as source:
            head = source.read_at(self.offset, min(HEAD_BYTES, self.size_bytes))
            max_bytes = limit_of(head)
            if max_bytes is None:
                return None
            check_size(self.size_bytes, max_bytes)
            return read_exactly(source, self.offset, self.size_bytes)


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
def opened_whole(
    path: str, stat: FileStat | None = None, *, at_once: int = 0
) -> Iterator[tuple[Readable, FileStat]]:
    """The container at a path or URL, and what tells that it did not change.

    Args:
        path: of the container.
        stat: what an object was when it was found; a file's is what it is now.
        at_once: bytes of the part that is read; 0 where all of it is looked through.

    Raises:
        ReadError: see `opened`; an object that cannot be read, or changed meanwhile.
    """
    if is_url(path) and at_once:
        part = part_bytes(path, stat, at_once=at_once)
        yield part, part.stat
    elif is_url(path):
        whole = object_bytes(path, stat)
        yield whole, whole.stat
        whole.check()
    else:
        with opened(path) as (handle, status):
            yield FileBytes(handle, status.st_size), FileStat.of(status)


@contextmanager
def opened_container(
    path: str, stat: FileStat | None, *, may_grow: bool = False, at_once: int = 0
) -> Iterator[Readable]:
    """The container as it was when its parts were found.

    Args:
        path: of the container.
        stat: what it was; None where that does not matter.
        may_grow: lines are added to a log all the time, and those before stay where they are.
        at_once: see `opened_whole`.

    Raises:
        ReadError: see `opened_whole`; kind ``changed`` where it is another one by now.
    """
    with opened_whole(path, stat, at_once=at_once) as (source, now):
        same = stat is None or now == stat
        if stat is not None and may_grow:
            same = now.size_bytes >= stat.size_bytes and _identity(now) == _identity(stat)
        if not same:
            raise ReadError(
                "the file changed after its parts were found",
                kind="changed",
                hint="run again when it is whole",
            )
        yield source


def _identity(stat: FileStat) -> tuple[int, int]:
    return stat.inode, stat.device


def is_hidden(name: str) -> bool:
    """True for members that a walk of the same folder would leave out.

    >>> is_hidden("a/.b/c.jpg"), is_hidden("__MACOSX/a.jpg"), is_hidden("./../a.jpg")
    (True, True, False)
    """
    parts = name.split("/")
    return any(
        part == "__MACOSX" or (part.startswith(".") and part not in {".", ".."}) for part in parts
    )
