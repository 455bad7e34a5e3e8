"""Payloads of arrays through shared memory: one copy in, one copy out, and only a note between."""

from __future__ import annotations

import contextlib
import pickle
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from types import TracebackType
from typing import Any, Final, Self, cast

__all__ = ["SharedMailbox", "SharedPayload"]

_ALIGNMENT_BYTES: Final = 64
_SERIAL_BYTES: Final = 16
_FREE: Final = 0
_BUSY: Final = 1
_MAX_PREFIX: Final = 20
"""macOS allows 30 characters to a segment's name, the slot's number included."""


@dataclass(frozen=True, slots=True)
class SharedPayload:
    """Says where a payload waits. Small and picklable: this is what a pipe carries."""

    name: str
    """Of the segment."""
    serial: bytes
    """Also the segment's first bytes, so that a slot used anew is not mistaken for this one."""
    structure: bytes = b""
    """The payload without its buffers, pickled."""
    sizes_bytes: tuple[int, ...] = ()
    """Of each buffer, in order."""

    def take(self) -> Any:  # noqa: ANN401  whatever was sent
        """The payload, its arrays read-only and this process's own. Once: it frees the slot.

        To be called only on what comes from a process that is trusted: it unpickles.

        Raises:
            LookupError: the payload is gone: taken before, or cleared.
        """
        try:
            segment = SharedMemory(self.name)
        except FileNotFoundError as error:
            raise LookupError(f"segment `{self.name}` is gone") from error
        with contextlib.closing(segment):
            data = bytes(_room(segment))
            if data[:_SERIAL_BYTES] != self.serial:
                raise LookupError(f"segment `{self.name}` holds another payload")
            _room(segment)[0] = _FREE
        whole = memoryview(data)
        buffers = [whole[begin:end] for begin, end in _spans(self.sizes_bytes)]
        return pickle.loads(self.structure, buffers=buffers)  # noqa: S301  from our own sender


class SharedMailbox:
    """A few slots of shared memory, by name, that a sender fills and a receiver empties.

    A slot is busy from `share` to `SharedPayload.take`, then used again. So memory in transit is
    bounded, and after a crash of either side `clear` finds all that is left: the names are known.
    Both processes must be children of one `multiprocessing` parent, or one of the other: they
    then have one resource tracker, which cleans up when all of them are killed.

    Args:
        prefix: begins the names of the segments; one sender each, at most 20 characters.
        slots: payloads that may be in transit.

    Raises:
        ValueError: a prefix that is empty or too long, or no slot.
    """

    def __init__(self, prefix: str, *, slots: int = 64) -> None:
        if not 0 < len(prefix) <= _MAX_PREFIX or "/" in prefix:
            raise ValueError(f"`prefix` has 1 to {_MAX_PREFIX} characters, got {prefix!r}")
        if not 0 < slots <= 10_000:
            raise ValueError(f"`slots` is 1 to 10000, got {slots}")
        self._names = tuple(f"{prefix}-{number}" for number in range(slots))
        self._filled: dict[str, SharedMemory] = {}
        self._lock = threading.Lock()

    def share(self, payload: object) -> SharedPayload | None:
        """Copy a payload into a free slot; None where all are in transit: send it otherwise.

        Args:
            payload: picklable; the buffers of its numpy arrays go through shared memory.

        Raises:
            TypeError, pickle.PicklingError: it cannot be pickled.
            FileExistsError: another sender has this prefix, or had it and was killed: `clear`.
            OSError: no shared memory left.
        """
        buffers: list[pickle.PickleBuffer] = []
        structure = pickle.dumps(payload, protocol=5, buffer_callback=buffers.append)
        parts = [buffer.raw() for buffer in buffers]
        sizes_bytes = tuple(part.nbytes for part in parts)
        spans = list(_spans(sizes_bytes))
        with self._lock:
            segment = self._free_segment(max([_SERIAL_BYTES, *(end for _, end in spans)]))
        if segment is None:
            return None
        room = _room(segment)
        for part, (begin, end) in zip(parts, spans, strict=True):
            room[begin:end] = part
        serial = bytes([_BUSY]) + secrets.token_bytes(_SERIAL_BYTES - 1)
        room[:_SERIAL_BYTES] = serial
        return SharedPayload(segment.name, serial, structure, sizes_bytes)

    def clear(self) -> int:
        """Remove every segment, also what a dead process left; how many there were.

        What was in transit is gone: its `take` raises LookupError.
        """
        removed = 0
        with self._lock:
            for name in self._names:
                segment = self._filled.pop(name, None)
                with contextlib.suppress(FileNotFoundError):
                    segment = segment or SharedMemory(name)
                    segment.close()
                    segment.unlink()
                    removed += 1
        return removed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.clear()

    def _free_segment(self, size_bytes: int) -> SharedMemory | None:
        """A segment marked busy: one that was emptied, or a new one. Under the lock."""
        for name in self._names:
            segment = self._filled.get(name)
            if segment is not None and _room(segment)[0] != _FREE:
                continue
            if segment is not None and segment.size < size_bytes:
                segment.close()
                del self._filled[name]
                segment.unlink()
                segment = None
            if segment is None:
                segment = SharedMemory(name, create=True, size=size_bytes)
                self._filled[name] = segment
            _room(segment)[0] = _BUSY
            return segment
        return None


def _spans(sizes_bytes: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Where each buffer lies, aligned, after the serial."""
    end = _SERIAL_BYTES
    for size_bytes in sizes_bytes:
        begin = -(-end // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        end = begin + size_bytes
        yield begin, end


def _room(segment: SharedMemory) -> memoryview:
    return cast("memoryview", segment.buf)  # None only once closed
