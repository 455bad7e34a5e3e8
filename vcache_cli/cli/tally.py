"""What has happened in a run so far, and what of it is told. Pure but for the counting."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vcache_cli.cli.text import count, duration
from vcache_cli.outcome import PresentFiles, Status
from vcache_cli.quantity import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Final

    from vcache_cli.outcome import Outcome

__all__ = ["Share", "Tally"]

_MIN_SECONDS: Final = 2.0
"""Before a rate or a share means anything."""

_BUSY: Final = 0.5
"""Share of its time from which on a stage can be what the others wait for."""

_STAGES: Final = (
    ("digest", "read", "prepare"),
    ("decode", "decode", "prepare"),
    ("preprocess", "preprocess", "prepare"),
    ("encode", "encode", "encode"),
    ("write", "write", "write"),
)
"""As Outcomes name it, as people do, and the lanes in which it runs."""


class Share(NamedTuple):
    """How busy a stage was."""

    stage: str
    """For people: ``read``, ``decode``, ``preprocess``, ``encode`` or ``write``."""
    share: float
    """0..1 of the time of all threads or processes that could do it."""
    slowest: bool
    """The others wait for this one."""


@dataclass(slots=True)
class Tally:
    """Counts of a run."""

    total: Callable[[], int | None]
    """Items that there are; None while that is not known."""
    started: float
    lanes: Mapping[str, int] = field(default_factory=dict)
    """How many ``prepare``, ``encode`` and ``write`` at once; a stage without lanes is not told."""
    statuses: Counter[Status] = field(default_factory=lambda: Counter(dict.fromkeys(Status, 0)))
    """Complete from the start: another thread reads it while it is counted up."""
    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys((stage for stage, _, _ in _STAGES), 0.0)
    )
    """Spent per stage, summed over items; complete from the start, as `statuses` is."""
    bytes_written: int = 0

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Count Outcomes."""
        if isinstance(outcomes, PresentFiles):
            self.statuses[Status.PRESENT] += len(outcomes)
            return
        for outcome in outcomes:
            self.statuses[outcome.status] += 1
            self.bytes_written += outcome.bytes_written
            for stage in outcome.seconds.keys() & self.seconds.keys():
                self.seconds[stage] += outcome.seconds[stage]

    @property
    def done(self) -> int:
        """Items that have an Outcome."""
        return self.statuses.total()

    def describe(self, now: float) -> str:
        """One line for people; `now` by the clock of `started`."""
        return ", ".join(self.parts(now))

    def parts(self, now: float) -> list[str]:
        """What the line is made of."""
        total, rate = self.total(), self._rate(now)
        parts = [f"{self.done:,} of {total:,} items" if total else count(self.done, "item")]
        if rate:
            parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
        hits = self.statuses[Status.PRESENT] + self.statuses[Status.COPY]
        parts.append(count(hits, "hit"))
        if self.statuses[Status.FAILED]:
            parts.append(f"{self.statuses[Status.FAILED]:,} failed")
        parts.append(f"{format_size(self.bytes_written)} written")
        if rate and total and total > self.done:
            left_seconds = math.ceil((total - self.done) / rate)
            left = duration(left_seconds) if left_seconds >= 60 else f"{left_seconds} s"
            parts.append(f"{left} left")
        return parts

    def shares(self, now: float) -> list[Share]:
        """How busy each stage was so far, in the order of the work; empty while it says nothing."""
        elapsed = now - self.started
        if elapsed < _MIN_SECONDS or not any(self.seconds.values()):
            return []
        found = [
            (label, lane, min(1.0, self.seconds[stage] / (elapsed * self.lanes[lane])))
            for stage, label, lane in _STAGES
            if lane in self.lanes
        ]
        slowest = _slowest(found)
        return [Share(label, share, label == slowest) for label, _, share in found]

    def slowest(self, now: float) -> str:
        """The stage that the others wait for, with its share; empty where none stands out."""
        told = [f"{each.stage} {each.share:.0%} busy" for each in self.shares(now) if each.slowest]
        return f"slowest: {told[0]}" if told else ""

    def _rate(self, now: float) -> float:
        elapsed = now - self.started
        return self.done / elapsed if elapsed >= _MIN_SECONDS else 0.0


def _slowest(found: list[tuple[str, str, float]]) -> str | None:
    """The longest stage of the busiest lanes."""
    busy: defaultdict[str, float] = defaultdict(float)
    for _, lane, share in found:
        busy[lane] += share
    lane = max(busy, key=busy.__getitem__, default="")
    if busy[lane] < _BUSY:
        return None
    return max((each for each in found if each[1] == lane), key=lambda each: each[2])[0]
