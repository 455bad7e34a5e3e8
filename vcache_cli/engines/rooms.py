"""Arrays from one process to another through shared memory that has no name.

A room is a piece of it: made by the sender, mapped by both, used again once the receiver has let
go of its arrays. Nothing is left of it when both processes end, however they end.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import pickle
import tempfile
import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

__all__ = ["Inbox", "Letter", "Outbox"]

_ALIGNMENT_BYTES: Final = 64
_COPIED_BYTES: Final = 1024**2
"""Up to this size the receiver copies: cheaper than another room for what is sent next."""
_LEAST_BYTES: Final = 4 * 1024**2
_HELD_BYTES: Final = 256 * 1024**2
"""Rooms that a receiver leaves its arrays in; beyond that it copies them out."""

Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Letter:
    """A value on its way. Small: its arrays lie in the room."""

    structure: bytes
    """The value without its buffers, pickled."""
    room: int = -1
    size_bytes: int = 0
    """Of the room."""
    spans: tuple[Span, ...] = ()
    """Begin and end of each buffer."""


@dataclass(slots=True)
class _Room:
    memory: mmap.mmap
    size_bytes: int
    free: bool = True


@dataclass(slots=True)
class Outbox:
    """The sender's end; one thread."""

    rooms: dict[int, _Room] = field(default_factory=dict)

    def put(self, value: object) -> tuple[Letter, tuple[int, ...]]:
        """A letter for `value`; with a descriptor to send and then to close, where its room is new.

        Raises:
            TypeError, AttributeError, pickle.PicklingError: `value` cannot be pickled.
        """
        buffers: list[pickle.PickleBuffer] = []
        structure = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        parts = [buffer.raw() for buffer in buffers]
        spans = _spans([part.nbytes for part in parts])
        if not spans:
            return Letter(structure), ()
        try:
            number, handles = self._room_of(spans[-1][1])
        except OSError:  # no memory to share, no descriptor, or a limit of file sizes
            return Letter(pickle.dumps(value, protocol=5)), ()
        room = self.rooms[number]
        room.free = False
        for part, (begin, end) in zip(parts, spans, strict=True):
            room.memory[begin:end] = part
        return Letter(structure, number, room.size_bytes, spans), handles

    def freed(self, numbers: list[int]) -> None:
        """The receiver has let go of these rooms."""
        for number in numbers:
            self.rooms[number].free = True

    def _room_of(self, size_bytes: int) -> tuple[int, tuple[int, ...]]:
        fitting = [
            n for n, each in self.rooms.items() if each.free and each.size_bytes >= size_bytes
        ]
        if fitting:
            return min(fitting, key=lambda n: self.rooms[n].size_bytes), ()
        for number in [n for n, each in self.rooms.items() if each.free]:
            del self.rooms[number]  # all too small: one that fits takes their place
        size_bytes = max(_LEAST_BYTES, 1 << (size_bytes - 1).bit_length())
        handle = _nameless(size_bytes)
        number = next(n for n in itertools.count() if n not in self.rooms)
        self.rooms[number] = _Room(mmap.mmap(handle, size_bytes), size_bytes)
        return number, (handle,)


class Inbox:
    """The receiver's end; one thread at a time, while arrays die in any.

    Args:
        most_held: rooms in which arrays may stay; each takes a descriptor.
    """

    def __init__(self, most_held: int) -> None:
        self._most_held = most_held
        self._rooms: dict[int, mmap.mmap] = {}
        self._held: dict[int, int] = {}
        self._freed: deque[int] = deque()

    def take(self, letter: Letter, handles: tuple[int, ...]) -> Any:  # noqa: ANN401  what was sent
        """The value; its arrays are writable, and in the room where they are large."""
        for handle in handles:
            self._rooms[letter.room] = mmap.mmap(handle, letter.size_bytes)
            os.close(handle)
        if not letter.spans:
            return pickle.loads(letter.structure)  # noqa: S301  from our own worker
        room = self._rooms[letter.room]
        if letter.spans[-1][1] <= _COPIED_BYTES or not self._may_hold(letter.size_bytes):
            copies = [bytearray(room[begin:end]) for begin, end in letter.spans]
            self._freed.append(letter.room)
            return pickle.loads(letter.structure, buffers=copies)  # noqa: S301  as above
        whole = (ctypes.c_ubyte * letter.size_bytes).from_buffer(room)
        self._held[letter.room] = letter.size_bytes
        weakref.finalize(whole, self._let_go, letter.room).atexit = False
        view = memoryview(whole).cast("B")
        parts = [view[begin:end] for begin, end in letter.spans]
        return pickle.loads(letter.structure, buffers=parts)  # noqa: S301  as above

    def freed(self) -> list[int]:
        """Rooms that the sender may use again; each is told once."""
        return [self._freed.popleft() for _ in range(len(self._freed))]

    def _may_hold(self, size_bytes: int) -> bool:
        held = list(self._held.values())
        return len(held) < self._most_held and sum(held) + size_bytes <= _HELD_BYTES

    def _let_go(self, room: int) -> None:
        self._held.pop(room, None)
        self._freed.append(room)


def _spans(sizes_bytes: list[int]) -> tuple[Span, ...]:
    found, end = [], 0
    for size_bytes in sizes_bytes:
        begin = -(-end // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        end = begin + size_bytes
        found.append((begin, end))
    return tuple(found)


def _nameless(size_bytes: int) -> int:
    """A descriptor of memory; of a file without a name where the system has no such thing."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("vcache", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    try:
        os.ftruncate(handle, size_bytes)
    except OSError:
        os.close(handle)
        raise
    return handle
