"""Parts of a container in a bucket: neighbours that are asked for in turn are fetched together.

Of a tar of small pictures that is a few large requests, not one for each picture; where only some
of them are wanted, each is fetched alone. Each process has its own of these.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from vcache_cli.buckets import open_bucket, parse_place
from vcache_cli.media.object_bytes import AT_ONCE_BYTES, MOST_BYTES, checked_piece, found_stat

if TYPE_CHECKING:
    from vcache_cli.items import FileStat

__all__ = ["PartBytes", "part_bytes"]

_FIRST_BYTES: Final = 64 * 1024
_NEAR_BYTES: Final = 256 * 1024
"""What other processes take in between may be fetched too, up to this or the size of a part."""
_MOST_STREAMS: Final = 2


@dataclass(slots=True)
class _Stream:
    """Reads an object forward, by pieces, for all threads."""

    url: str
    stat: FileStat
    lock: threading.Lock = field(default_factory=threading.Lock)
    piece: bytes = b""
    end: int = 0
    """Of `piece`, or of what was read last."""
    step: int = _FIRST_BYTES

    def read(self, offset: int, size_bytes: int) -> bytes:
        """All of these bytes, which there are.

        Raises:
            ReadError: they cannot be had.
        """
        with self.lock:
            if (data := self._ahead(offset, size_bytes)) is not None:
                return data
        return self._fetched(offset, offset + size_bytes)

    def _ahead(self, offset: int, size_bytes: int) -> bytes | None:
        """From a piece; None for what is to be fetched alone, while others go on."""
        at = offset - (self.end - len(self.piece))
        held = self.piece[at : at + size_bytes] if at >= 0 else b""
        if len(held) == size_bytes:
            return held
        gap = offset - self.end
        if size_bytes > AT_ONCE_BYTES or gap > max(size_bytes, _NEAR_BYTES):
            self.piece, self.step = b"", _FIRST_BYTES
            self.end = offset + size_bytes
            return None
        if gap >= 0 or held:
            return held + self._piece(offset + len(held), size_bytes - len(held))
        return None  # late: the piece is ahead of it

    def _piece(self, start: int, size_bytes: int) -> bytes:
        step = min(2 * self.step, MOST_BYTES)
        end = min(start + max(size_bytes, step), self.stat.size_bytes)
        self.piece = self._fetched(start, end)
        self.end, self.step = end, step
        return self.piece[:size_bytes]

    def _fetched(self, start: int, end: int) -> bytes:
        return checked_piece(self.url, self.stat, start=start, end=end)


@dataclass(slots=True)
class _Streams:
    """The streams of this process, the last used ones."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    open: OrderedDict[tuple[str, FileStat], _Stream] = field(default_factory=OrderedDict)

    def of(self, url: str, stat: FileStat) -> _Stream:
        """That of one version of an object."""
        with self.lock:
            stream = self.open.pop((url, stat), None) or _Stream(url, stat)
            self.open[url, stat] = stream
            while len(self.open) > _MOST_STREAMS:
                self.open.popitem(last=False)
        return stream


_STREAMS: Final = _Streams()


def part_bytes(url: str, stat: FileStat | None, *, at_once: int) -> PartBytes:
    """The object at `url`, for reading a part of `at_once` bytes of it."""
    if stat is None:
        place = parse_place(url)
        stat = found_stat(open_bucket(place), place)
    return PartBytes(_STREAMS.of(url, stat), at_once)


class PartBytes:
    """See `Readable`. The first reading brings the whole part where that is small."""

    def __init__(self, stream: _Stream, at_once: int) -> None:
        self._stream = stream
        self._first = at_once if at_once <= AT_ONCE_BYTES else _FIRST_BYTES
        self._piece, self._start = b"", 0

    @property
    def stat(self) -> FileStat:
        """What tells this version from others."""
        return self._stream.stat

    @property
    def size_bytes(self) -> int:
        """See `Readable`."""
        return self.stat.size_bytes

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        """See `Readable`."""
        wanted = min(size_bytes, self.size_bytes - offset)
        if wanted <= 0:
            return b""
        at = offset - self._start
        if 0 <= at < len(self._piece):
            return self._piece[at : at + wanted]
        most = min(max(wanted, self._first), self.size_bytes - offset)
        self._first = 0
        self._piece, self._start = self._stream.read(offset, most), offset
        return self._piece[:wanted]
