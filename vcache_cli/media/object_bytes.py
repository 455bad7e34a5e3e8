"""Bytes of an object in a bucket, in few requests, all of one version of it.

What follows what was read is fetched ahead, in ever larger pieces as long as the reading goes on
close by: a tar of pictures is streamed, of one of long videos the headers alone are fetched. One
such piece is in memory.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from vcache_cli.buckets import open_bucket, parse_place
from vcache_cli.errors import ReadError
from vcache_cli.items import FileStat

if TYPE_CHECKING:
    from vcache_cli.buckets import Bucket, Found, Place

__all__ = [
    "AT_ONCE_BYTES",
    "MOST_BYTES",
    "ObjectBytes",
    "checked_piece",
    "fetched",
    "found_stat",
    "object_bytes",
    "object_stat",
]

AT_ONCE_BYTES: Final = 1024 * 1024
"""What is up to this size is had in one request; of what is larger the head comes first."""
_FIRST_BYTES: Final = 64 * 1024
MOST_BYTES: Final = 4 * 1024 * 1024
"""Of a piece that is fetched ahead."""
_NEAR_BYTES: Final = 1024 * 1024
"""To fetch so many bytes in vain takes about as long as to ask once more."""
_NEVER: Final = 2**62
"""A time in the future: nothing of such an object is remembered."""


def object_stat(found: Found) -> FileStat:
    """What tells an unchanged object: its etag, or size and time where it has none."""
    if found.version:
        return FileStat(found.size_bytes, 0, 0, *_numbers(found.version))
    return FileStat(found.size_bytes, found.mtime_ns or _NEVER, 0, 0, 0)


def found_stat(bucket: Bucket, place: Place) -> FileStat:
    """`object_stat` of what lies at `place` now.

    Raises:
        ReadError: nothing is there (kind ``not_found``), or it cannot be told.
    """
    facts = bucket.facts(place.path)
    if facts is None or facts.is_folder:
        raise ReadError(
            f"no such object: bucket `{place.root}`, path `{place.path}`",
            kind="not_found",
            hint="correct the name, or leave it out",
        )
    return object_stat(facts)


def fetched(
    bucket: Bucket, path: str, *, start: int, end: int, stat: FileStat | None
) -> tuple[bytes, bool]:
    """Bytes `start` to `end`, and whether the service said that they are of the version `stat`.

    Raises:
        ReadError: they cannot be had; kind ``changed`` where they are of another version.
    """
    data, version = bucket.read_version(path, end, start=start)
    if not version or stat is None:
        return data, False
    if (stat.inode, stat.device) != _numbers(version):
        raise _changed()
    return data, True


def checked_piece(url: str, stat: FileStat, *, start: int, end: int) -> bytes:
    """Bytes `start` to `end`, which the object has, of the version `stat`.

    Raises:
        ReadError: they cannot be had; kind ``changed`` where it is another one by now.
    """
    source = object_bytes(url, stat)
    data = source.piece(start, end)
    source.check()
    return data


def object_bytes(url: str, stat: FileStat | None) -> ObjectBytes:
    """The object at `url`, as it was when it was found; nothing is asked of it yet.

    Args:
        url: of the object.
        stat: what it was; None for what it is now.

    Raises:
        ReadError: nothing is there.
    """
    place = parse_place(url)
    bucket = open_bucket(place)
    return ObjectBytes(bucket, place, stat or found_stat(bucket, place))


class ObjectBytes:
    """See `Readable`. Who has read calls `check`."""

    def __init__(self, bucket: Bucket, place: Place, stat: FileStat) -> None:
        self._bucket, self._place, self.stat = bucket, place, stat
        self._step = _FIRST_BYTES
        self._piece, self._end = b"", 0
        """What was fetched last, and where it ends."""
        self._has_read = self._is_told = False

    @property
    def size_bytes(self) -> int:
        """See `Readable`."""
        return self.stat.size_bytes

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        """See `Readable`."""
        wanted = min(size_bytes, self.size_bytes - offset)
        if wanted <= 0:
            return b""
        at = offset - (self._end - len(self._piece))
        if 0 <= at < len(self._piece):
            return self._piece[at : at + wanted]
        return self._fetched(offset, wanted)

    def _fetched(self, offset: int, wanted: int) -> bytes:
        is_near = self._has_read and 0 <= offset - self._end <= _NEAR_BYTES
        self._step = min(2 * self._step, MOST_BYTES) if is_near else _FIRST_BYTES
        end = min(offset + max(wanted, self._step), self.size_bytes)
        self._piece = b""  # two of them are never held
        data = self.piece(offset, end)
        self._piece, self._end = data if len(data) <= MOST_BYTES else b"", end
        return data[:wanted]

    def piece(self, start: int, end: int) -> bytes:
        """Bytes `start` to `end`, which it has, in one request.

        Raises:
            ReadError: they cannot be had.
        """
        try:
            data, self._is_told = fetched(
                self._bucket, self._place.path, start=start, end=end, stat=self.stat
            )
        except ReadError as error:
            if error.item_kind == "io_error":  # a range that lies behind its end by now?
                self._compare()
            raise
        self._has_read = True
        if len(data) != end - start:
            raise _changed()
        return data

    def check(self) -> None:
        """Ask whether it is still the same, where the service did not say so with each answer.

        Raises:
            ReadError: kind ``changed``, or it cannot be told.
        """
        if self._has_read and not self._is_told:
            self._compare()
            self._has_read = False

    def _compare(self) -> None:
        if found_stat(self._bucket, self._place) != self.stat:
            raise _changed()


def _numbers(version: str) -> tuple[int, int]:
    """What stands for the version of an object where files have inode and device."""
    named = hashlib.sha256(version.encode()).digest()
    return int.from_bytes(named[:8], "big"), int.from_bytes(named[8:16], "big")


def _changed() -> ReadError:
    return ReadError(
        "the object changed after it was listed",
        kind="changed",
        hint="run again when it is whole",
    )
