"""Folds the Outcomes of a run into numbers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from vcache_cli.outcome import Outcome, PresentFiles, Status

__all__ = ["MAX_LISTED", "WarmTotals"]

MAX_LISTED: Final = 1_000
"""Failures and warnings kept for the summary; the run file has them all."""


@dataclass(slots=True)
class WarmTotals:
    """Counts, bytes and seconds of a run so far. Grows with failures up to a bound only."""

    statuses: Counter[Status] = field(default_factory=Counter)
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Seconds summed over items, per stage."""
    failures: list[dict[str, str]] = field(default_factory=list)
    failures_omitted: int = 0
    skips: Counter[str] = field(default_factory=Counter)
    """Skipped items by kind."""
    warnings: list[dict[str, str]] = field(default_factory=list)
    warnings_omitted: int = 0

    @property
    def done(self) -> int:
        """Items that have an Outcome."""
        return self.statuses.total()

    @property
    def skipped(self) -> int:
        """Items that are no pictures, or videos."""
        return self.statuses[Status.SKIPPED]

    @property
    def failed(self) -> int:
        """Items that failed."""
        return self.statuses[Status.FAILED]

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Count Outcomes."""
        if isinstance(outcomes, PresentFiles):
            self.statuses[Status.PRESENT] += len(outcomes)
            return
        for outcome in outcomes:
            self.statuses[outcome.status] += 1
            self.bytes_read += outcome.bytes_read
            self.bytes_written += outcome.bytes_written
            if outcome.seconds:
                for stage, seconds in outcome.seconds.items():
                    self.seconds[stage] += seconds
            if outcome.failure or outcome.notices:
                self._list(outcome)

    def _list(self, outcome: Outcome) -> None:
        failure = outcome.failure
        if outcome.status is Status.SKIPPED and failure:
            self.skips[failure.kind] += 1
        if outcome.status is Status.FAILED and failure:
            if len(self.failures) < MAX_LISTED:
                self.failures.append(
                    {
                        "source": outcome.item.source,
                        "stage": failure.stage,
                        "kind": failure.kind,
                        "message": failure.message,
                        **({"hint": failure.hint} if failure.hint else {}),
                    }
                )
            else:
                self.failures_omitted += 1
        for notice in outcome.notices:
            if len(self.warnings) < MAX_LISTED:
                self.warnings.append(
                    {
                        "source": outcome.item.source,
                        "kind": notice.kind,
                        "message": notice.message,
                    }
                )
            else:
                self.warnings_omitted += 1

    def as_json(self, *, elapsed_seconds: float) -> dict[str, Any]:
        """The counting fields of ``vcache.warm/1``."""
        stages = ("discover", "digest", "decode", "preprocess", "encode", "write")
        document: dict[str, Any] = {
            "items": {
                "total": self.done,
                **{status.value: self.statuses[status] for status in Status},
            },
            "bytes": {"read": self.bytes_read, "written": self.bytes_written},
            "seconds": {
                "total": round(elapsed_seconds, 6),
                **{stage: round(self.seconds[stage], 6) for stage in stages},
            },
            "items_per_second": round(self.done / max(elapsed_seconds, 1e-9), 3),
            "skips": dict(sorted(self.skips.items())),
            "failures": self.failures,
            "warnings": self.warnings,
        }
        if self.failures_omitted:
            document["failures_omitted"] = self.failures_omitted
        if self.warnings_omitted:
            document["warnings_omitted"] = self.warnings_omitted
        return document
