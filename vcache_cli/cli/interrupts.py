"""Ctrl-C and SIGTERM while a run goes on: the first one finishes what is in flight."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from vcache_cli.cli.errors import Terminated

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType
    from typing import Any, Final, Self

__all__ = ["Interrupts", "at_once"]

_NOTE: Final = "stopping: what is in flight is finished; once more stops at once"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def at_once() -> None:
    """What stops work whose pieces are whole one by one: there is nothing to finish.

    Raises:
        KeyboardInterrupt: always.
    """
    raise KeyboardInterrupt


class Interrupts:
    """While active, the first signal calls `stop`, the second one raises.

    Args:
        stop: ends the run softly; called inside a signal handler. One that raises
            KeyboardInterrupt ends it at once.
        note: says a line; called inside a signal handler. None: straight to stderr.
    """

    def __init__(self, stop: Callable[[], None], note: Callable[[str], None] | None = None) -> None:
        self._stop = stop
        self._note = note or _say
        self._before: dict[int, Any] = {}
        self.received: int | None = None
        """The first signal's number."""

    def __enter__(self) -> Self:
        """Take the signals over; only the main thread can, elsewhere nothing changes."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._on) for number in _SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def error(self) -> KeyboardInterrupt | None:
        """What the first signal means for the exit code; None where there was none."""
        if self.received is None:
            return None
        return Terminated() if self.received == signal.SIGTERM else KeyboardInterrupt()

    def _on(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
        self.received = number
        try:
            self._stop()
        except KeyboardInterrupt:
            raise (self.error or KeyboardInterrupt()) from None
        self._note(_NOTE)


def _say(text: str) -> None:
    with suppress(OSError):  # straight to the descriptor: the stream may be in use right now
        os.write(sys.stderr.fileno(), f"\n{text}\n".encode())
