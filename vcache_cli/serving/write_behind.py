"""Writing later: a bounded queue and one thread, which loses nothing that it has accepted."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Generic, Literal, TypeVar

__all__ = ["WriteBehind"]

K = TypeVar("K", bound=Hashable)
J = TypeVar("J")


class WriteBehind(Generic[K, J]):
    """Jobs, written one after the other in the order in which they came. Any thread.

    A job takes two steps: `reserve` waits for room, `append` then never waits, so that it can
    be called under a lock. What is still waiting when the interpreter ends is written then.

    Args:
        write: does one job. What it raises ends the thread, loudly; the next one takes over.
        max_entries: jobs that may wait or be at work, 1 or more.
        max_bytes: bytes of them; a larger job waits until it is alone.
        on_full: whether `reserve` waits for room or gives up.

    Raises:
        ValueError: a bound below 1, or another word.
    """

    def __init__(
        self,
        write: Callable[[K, J], object],
        *,
        max_entries: int,
        max_bytes: int,
        on_full: Literal["wait", "drop"] = "wait",
    ) -> None:
        if max_entries < 1 or max_bytes < 1:
            raise ValueError(f"a queue of {max_entries} jobs and {max_bytes} bytes holds nothing")
        if on_full not in {"wait", "drop"}:
            raise ValueError(f'`on_full` is "wait" or "drop", got {on_full!r}')
        self._write = write
        self._max_entries, self._max_bytes = max_entries, max_bytes
        self._on_full = on_full
        # Its lock is re-entrant: a finalizer may come back in the same thread.
        self._changed = threading.Condition()
        self._queue: deque[tuple[K, J, int]] = deque()
        self._newest: dict[K, J] = {}
        self._entries = self._bytes = self._appended = self._done = self._drops = 0
        self._closed = False
        self._thread: threading.Thread | None = None
        _LIVE.add(self)

    @property
    def drops(self) -> int:
        """Jobs refused: the queue was full or closed."""
        return self._drops

    def reserve(self, size_bytes: int) -> bool:
        """Set room aside for a job, which `append` must bring; False where it is refused."""
        with self._changed:
            while not self._closed and not self._fits(size_bytes) and self._on_full == "wait":
                self._changed.wait()
            if self._closed or not self._fits(size_bytes):
                self._drops += 1
                return False
            self._entries += 1
            self._bytes += size_bytes
            return True

    def append(self, key: K, job: J, size_bytes: int) -> None:
        """Queue a job that room was set aside for."""
        with self._changed:
            self._queue.append((key, job, size_bytes))
            self._newest[key] = job
            self._appended += 1
            self._start()
            self._changed.notify_all()

    def pending(self, key: K) -> J | None:
        """The newest job of `key` that is not done yet."""
        with self._changed:
            return self._newest.get(key)

    def flush(self, timeout_seconds: float | None = None) -> bool:
        """Wait until all that was appended before is done; False where that took too long."""
        with self._changed:
            wanted = self._appended
            return self._changed.wait_for(lambda: self._done >= wanted, timeout_seconds)

    def refuse(self) -> None:
        """Take no more jobs; what was accepted will be done. Never waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def close(self) -> None:
        """Take no more jobs, and wait until all are done."""
        self.refuse()
        if threading.current_thread() is self._thread:
            return  # a finalizer that happened to run here: the loop ends by itself
        with self._changed:
            self._changed.wait_for(lambda: not self._entries)
            thread = self._thread
        if thread is not None:
            thread.join()

    def _fits(self, size_bytes: int) -> bool:
        if not self._entries:
            return True
        return self._entries < self._max_entries and self._bytes + size_bytes <= self._max_bytes

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():  # not alive: we were forked
            self._thread = threading.Thread(target=self._run, name="vcache-write", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            while self._step():
                pass
        finally:
            with self._changed:
                self._thread = None
                if self._queue:  # a job raised: the others do not wait for ever
                    self._start()

    def _step(self) -> bool:
        """Do one job, of which nothing stays alive here; False at the end."""
        job = self._next()
        if job is not None:
            self._do(*job)
        return job is not None

    def _next(self) -> tuple[K, J, int] | None:
        with self._changed:
            while not self._queue:
                if self._closed and not self._entries:
                    return None
                self._changed.wait()
            return self._queue.popleft()

    def _do(self, key: K, job: J, size_bytes: int) -> None:
        try:
            self._write(key, job)
        finally:
            with self._changed:
                if self._newest.get(key) is job:
                    del self._newest[key]
                self._entries -= 1
                self._bytes -= size_bytes
                self._done += 1
                self._changed.notify_all()


_LIVE: weakref.WeakSet[WriteBehind[Any, Any]] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Daemon threads still run here, and are gone a moment later."""
    for each in list(_LIVE):
        each.close()
