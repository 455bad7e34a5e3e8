"""The parent's end of one worker."""

from __future__ import annotations

import selectors
import socket
from contextlib import suppress
from typing import Final

from vcache_cli.engines.frames import LostError, receive, send
from vcache_cli.engines.rooms import Inbox
from vcache_cli.engines.worker import Reply

__all__ = ["START_SECONDS", "Hired"]

START_SECONDS: Final = 120.0
"""In which a worker has to start."""
_LONGEST_SECONDS: Final = 20 * 86_400.0
"""The system counts a wait in 31 bits of milliseconds."""
_GRACE_SECONDS: Final = 2.0
"""Beyond a worker's own alarm, before it is killed from here."""


class Hired:
    """This end of one worker. One thread at a time.

    Args:
        channel: to it.
        number: by which its launcher knows it.
        most_held: see `Inbox`.
    """

    def __init__(self, channel: socket.socket, number: int, most_held: int) -> None:
        self.number = number
        self.noted: object = None
        """What it noted of the input that it has."""
        self._channel = channel
        self._inbox = Inbox(most_held)

    def wait_ready(self) -> None:
        """Return once it can work.

        Raises:
            LostError, TimeoutError: it will not.
        """
        self._receive(START_SECONDS)

    def ask(self, value: object, seconds: float | None) -> Reply:
        """What it says of an input; a value is unpacked.

        Raises:
            LostError: it is gone.
            TimeoutError: it did not end in time, and was not ended by its alarm either.
        """
        self.noted = None
        send(self._channel, (value, self._inbox.freed()))
        while True:
            reply, handles = self._receive(seconds and seconds + _GRACE_SECONDS)
            if reply.kind == "noted":
                self.noted = reply.value
                continue
            if reply.value is None:
                return Reply(reply.kind)
            return Reply(reply.kind, self._inbox.take(reply.value, handles))

    @property
    def is_gone(self) -> bool:
        """True where it died while it had nothing to do: it says nothing unasked."""
        return self._speaks(0)

    def close(self) -> None:
        """Let go of it; it then ends by itself if it can."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        self._channel.close()

    def _receive(self, seconds: float | None) -> tuple[Reply, tuple[int, ...]]:
        if not (self._speaks(seconds) or self._speaks(0)):  # it may have, while we were stopped
            raise TimeoutError
        reply, handles = receive(self._channel)
        if not isinstance(reply, Reply):
            raise LostError
        return reply, handles

    def _speaks(self, seconds: float | None) -> bool:
        """Whether there is something to receive within that time, an end included."""
        with selectors.PollSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            most = None if seconds is None else min(seconds, _LONGEST_SECONDS)
            return bool(selector.select(most))
