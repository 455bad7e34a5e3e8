"""Folds the Outcomes of a replay into numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.outcome import Status

if TYPE_CHECKING:
    from vcache_cli.outcome import Outcome

__all__ = ["Totals"]

_MOST_LISTED: Final = 1_000
_NAMES: Final = {Status.STORED: "sent"}


@dataclass(slots=True)
class Totals:
    """Counts of a replay so far. Grows with failures up to a bound only."""

    statuses: Counter[Status] = field(default_factory=Counter)
    skips: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, str]] = field(default_factory=list)
    bytes_read: int = 0
    bytes_sent: int = 0
    requests: int = 0
    again: int = 0
    """Requests beyond the first of each item."""

    @property
    def done(self) -> int:
        """Items that have an Outcome."""
        return self.statuses.total()

    @property
    def failed(self) -> int:
        """Items that failed."""
        return self.statuses[Status.FAILED]

    def add(self, outcome: Outcome) -> None:
        """Count one Outcome."""
        self.statuses[outcome.status] += 1
        self.bytes_read += outcome.bytes_read
        self.bytes_sent += outcome.bytes_written
        failure = outcome.failure
        if failure and outcome.status is Status.SKIPPED:
            self.skips[failure.kind] += 1
        elif failure and len(self.failures) < _MOST_LISTED:
            told = {"stage": failure.stage, "kind": failure.kind, "message": failure.message}
            told |= {"hint": failure.hint} if failure.hint else {}
            self.failures.append({"source": outcome.item.source, **told})

    def as_json(self, elapsed_seconds: float) -> dict[str, Any]:
        """The counting fields of ``vcache.replay/1``."""
        counts = {_NAMES.get(each, each.value): self.statuses[each] for each in Status}
        return {
            "items": {"total": self.done, **counts},
            "bytes": {"read": self.bytes_read, "sent": self.bytes_sent},
            "requests": {"made": self.requests, "again": self.again},
            "seconds": {"total": round(elapsed_seconds, 6)},
            "items_per_second": round(self.done / max(elapsed_seconds, 1e-9), 3),
            "skips": dict(sorted(self.skips.items())),
            "failures": self.failures,
            "failures_omitted": self.failed - len(self.failures) or None,
        }
