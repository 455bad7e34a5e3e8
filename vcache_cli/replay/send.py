"""One request until it is done or hopeless: tried again where another try may succeed."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from vcache_cli.replay.judge import DONE, Verdict, judge, pause_seconds, silent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vcache_cli.replay.address import Address
    from vcache_cli.replay.manner import Manner
    from vcache_cli.replay.pace import Pace
    from vcache_cli.replay.wire import Exchange

__all__ = ["STOPPED", "Sender", "Sent"]

_FIRST_TRIES: Final = 2
STOPPED: Final = Verdict("stopped", "not sent: the run ended before", "run it again")


class Sent(NamedTuple):
    """What became of a request."""

    verdict: Verdict
    requests: int
    """Made for it."""
    first_token_seconds: float | None = None
    """Of the one that was answered."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends requests by several threads."""

    exchange: Exchange
    pace: Pace
    address: Address
    manner: Manner
    answered: threading.Event = field(default_factory=threading.Event)
    """Set once the server has said anything."""

    def __call__(self, pieces: Sequence[bytes]) -> Sent:
        """Send a request whose body is `pieces`."""
        verdict, pause, requests = STOPPED, 0.0, 0
        while self.pace.wait(pause):
            reply = self.exchange(pieces)
            requests += 1
            verdict = judge(reply, self.address, self.manner.model)
            if reply.status:
                self.answered.set()
            if verdict is DONE:
                return Sent(DONE, requests, reply.first_token_seconds)
            if verdict.kind == "broken" and not self.answered.is_set():
                verdict = silent(verdict, self.address)
            if requests >= self._tries(verdict):
                return Sent(verdict, requests)
            pause = pause_seconds(reply.retry_after, requests)
            if verdict.holds:
                self.pace.hold(pause)
        return Sent(verdict if verdict.ends else STOPPED, requests)

    def _tries(self, verdict: Verdict) -> int:
        """In all; few where nobody ever answered: then it is the URL, or no server runs."""
        allowed = 1 + self.manner.retries
        if verdict.ends and not self.answered.is_set():
            return min(_FIRST_TRIES, allowed)
        return allowed if verdict.tries is None else min(verdict.tries, allowed)
