"""When the next request may begin: at a rate, after a pause that the server asked for."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Pace"]


class Pace:
    """Shared by all threads that send.

    Args:
        rate: most requests begun in a second; None is no limit.
        clock: seconds that only grow.
    """

    def __init__(
        self, rate: float | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._every_seconds = 1 / rate if rate else 0.0
        self._clock = clock
        self._lock = threading.Lock()
        self._next = 0.0
        self._held_until = 0.0
        self._stopped = threading.Event()

    def slot(self) -> float:
        """Take the next moment at which a request may begin; seconds from now."""
        with self._lock:
            now = self._clock()
            begins = max(now, self._next, self._held_until)
            self._next = begins + self._every_seconds
            return begins - now

    def wait(self, more_seconds: float = 0.0) -> bool:
        """Wait for the next moment, and `more_seconds` before that; False where all is to end."""
        if more_seconds and self._stopped.wait(more_seconds):
            return False
        return not self._stopped.wait(self.slot())

    def hold(self, seconds: float) -> None:
        """Let nobody begin for so long: the server asked for it."""
        with self._lock:
            self._held_until = max(self._held_until, self._clock() + seconds)

    def stop(self) -> None:
        """Nobody begins any more; who waits is told at once."""
        self._stopped.set()

    @property
    def stopped(self) -> bool:
        """True once all is to end."""
        return self._stopped.is_set()
