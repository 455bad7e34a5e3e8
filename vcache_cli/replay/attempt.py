"""What is done about one item: read, known?, sent. In threads that send."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vcache_cli.errors import ItemError
from vcache_cli.items import Group, Kind
from vcache_cli.outcome import Failure, Outcome, Status
from vcache_cli.replay.judge import DONE, Verdict
from vcache_cli.replay.message import body_of
from vcache_cli.replay.read import Found, read_found
from vcache_cli.replay.send import STOPPED, Sent

if TYPE_CHECKING:
    from vcache_cli.items import WarmItem
    from vcache_cli.replay.done import DoneFile
    from vcache_cli.replay.send import Sender

__all__ = ["Attempt", "Claims", "Worker"]


class Attempt(NamedTuple):
    """What came of one item."""

    outcome: Outcome
    """A ``copy`` shares the fate of another, which may still be on its way."""
    sent: Sent | None = None
    """None where nothing was sent."""


@dataclass(slots=True)
class Claims:
    """Who sends which content. Called from several threads at once."""

    done: DoneFile
    _now: set[str] = field(default_factory=set)
    """Sent by this run."""
    _flying: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def claim(self, digest: str) -> Status | None:
        """None where the caller is to send it; else what it is instead."""
        with self._lock:
            if digest in self._now or digest in self._flying:
                return Status.COPY
            if digest in self.done:
                return Status.PRESENT
            self._flying.add(digest)
            return None

    def flies(self, digest: str) -> bool:
        """True while somebody sends it."""
        return digest in self._flying

    def settle(self, digest: str, *, sent: bool) -> None:
        """Who sent it is back.

        Raises:
            StoreFullError: it cannot be noted for the next run.
        """
        with self._lock:
            self._flying.discard(digest)
            if sent:
                self._now.add(digest)
                self.done.add(digest)


@dataclass(frozen=True, slots=True)
class Worker:
    """Takes an item to its Attempt."""

    sender: Sender
    claims: Claims

    def __call__(self, item: WarmItem) -> Attempt:
        """Read it, and send it where nobody did."""
        started = time.monotonic()
        try:
            found = read_found(item, self.sender.manner)
        except ItemError as error:
            return Attempt(_failed(item, error))
        except MemoryError:
            failure = Failure("digest", "out_of_memory", "not enough memory", transient=True)
            return Attempt(Outcome(item, Status.FAILED, failure=failure))
        if isinstance(found, Failure):
            kind = Kind.VIDEO if found.kind == "video" else None
            return Attempt(Outcome(item, Status.SKIPPED, kind=kind, failure=found))
        seconds = {"digest": time.monotonic() - started}
        base = _outcome(item, found, seconds)
        if known := self.claims.claim(found.digest):
            return Attempt(base._replace(status=known))
        pieces = body_of(found.parts, self.sender.manner)
        began = time.monotonic()
        sent = self.sender(pieces)
        seconds["send"] = time.monotonic() - began
        size = sum(map(len, pieces)) * sent.requests
        return Attempt(_ended(base, sent.verdict)._replace(bytes_written=size), sent)

    def again(self, item: WarmItem, digest: str) -> float | None:
        """Seconds until the first token of a second time; None where it is not to be had."""
        try:
            found = read_found(item, self.sender.manner)
        except (ItemError, MemoryError):
            return None
        if isinstance(found, Failure) or found.digest != digest:
            return None  # it changed
        sent = self.sender(body_of(found.parts, self.sender.manner, prefix="Again: "))
        return sent.first_token_seconds


def _outcome(item: WarmItem, found: Found, seconds: dict[str, float]) -> Outcome:
    return Outcome(
        item,
        Status.STORED,
        source_sha256=found.digest,
        kind=Kind.IMAGE if isinstance(item, Group) else found.parts[0].kind,
        bytes_read=found.size_bytes,
        seconds=seconds,
        members_sha256=found.members,
    )


def _ended(base: Outcome, verdict: Verdict) -> Outcome:
    if verdict is DONE:
        return base
    status = Status.SKIPPED if verdict is STOPPED else Status.FAILED
    failure = Failure("send", verdict.kind, verdict.message, verdict.hint, transient=True)
    return base._replace(status=status, failure=failure)


def _failed(item: WarmItem, error: ItemError) -> Outcome:
    failure = Failure(
        error.stage, error.item_kind, error.message, error.hint, transient=error.transient
    )
    return Outcome(item, Status.FAILED, failure=failure)
