"""What is learnt of one item on its way, and how it ends as an Outcome."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vcache_cli.media import notice_text
from vcache_cli.outcome import Failure, Foreseen, Notice, Outcome, Status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from vcache_cli.errors import ItemError
    from vcache_cli.items import Frames, Kind, WarmItem

__all__ = ["Trace", "failure_of"]

_OF_THE_RUN: Final = frozenset({"bomb", "memory", "too_large"})
"""Kinds that another limit or machine would not meet: as if they were transient."""


def failure_of(error: ItemError, stage: str) -> Failure:
    """The failure that `error` is, met in `stage`."""
    return Failure(
        stage=stage,
        kind=error.item_kind,
        message=error.message,
        hint=error.hint,
        transient=error.transient or error.item_kind in _OF_THE_RUN,
    )


@dataclass(slots=True)
class Trace:
    """The growing knowledge of one item. Used by one thread at a time."""

    item: WarmItem
    stage: str = "digest"
    """The step under way."""
    source_sha256: str | None = None
    kind: Kind | None = None
    key: str | None = None
    notices: tuple[Notice, ...] = ()
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    members_sha256: tuple[str, ...] = ()
    foreseen: Foreseen | None = None
    keys: tuple[str, ...] = ()

    @contextmanager
    def step(self, stage: str) -> Iterator[None]:
        """Time a step; where it raises, `stage` still names it."""
        self.stage = stage
        started = time.perf_counter()
        try:
            yield
        finally:
            self.spend(stage, time.perf_counter() - started)

    def spend(self, stage: str, seconds: float) -> None:
        """Charge `seconds` to `stage`."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds

    def warn(self, frames: Frames) -> None:
        """Keep what a decoder lost, for people."""
        told = ((kind.partition(": ")[0], notice_text(kind)) for kind in frames.warnings)
        self.notices += tuple(Notice(*each) for each in told)

    def end(self, status: Status, failure: Failure | None = None) -> Outcome:
        """The item's Outcome."""
        return Outcome(
            item=self.item,
            status=status,
            key=self.key,
            source_sha256=self.source_sha256,
            kind=self.kind,
            failure=failure,
            notices=self.notices,
            bytes_read=self.bytes_read,
            bytes_written=self.bytes_written,
            seconds=dict(self.seconds),
            members_sha256=self.members_sha256,
            foreseen=self.foreseen,
            keys=self.keys,
        )

    def fail(self, error: ItemError) -> Outcome:
        """The Outcome of an item that met `error` in the step under way."""
        return self.end(Status.FAILED, failure_of(error, self.stage))
