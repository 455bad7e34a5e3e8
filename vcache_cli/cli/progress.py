"""Progress of a run on stderr: what is shown is a pure function of what has happened."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from vcache_cli.cli.output import Output, is_rich
from vcache_cli.cli.text import clean, count, duration
from vcache_cli.outcome import Status
from vcache_cli.quantity import format_size

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Final, Self

    from vcache_cli.outcome import Outcome

__all__ = ["PlainProgress", "Progress", "Tally", "calm_counter", "item_line", "open_progress"]

_CALM_SECONDS: Final = 5.0
"""Between two plain lines."""

_MIN_SECONDS: Final = 2.0
"""Before a rate means anything."""


@dataclass(slots=True)
class Tally:
    """What has happened so far."""

    total: Callable[[], int | None]
    """Items that there are; None while that is not known."""
    started: float
    statuses: Counter[Status] = field(default_factory=lambda: Counter(dict.fromkeys(Status, 0)))
    """Complete from the start: another thread reads it while it is counted up."""
    bytes_written: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count one Outcome."""
        self.statuses[outcome.status] += 1
        self.bytes_written += outcome.bytes_written

    @property
    def done(self) -> int:
        """Items that have an Outcome."""
        return self.statuses.total()

    def describe(self, now: float) -> str:
        """One line for people; `now` by the clock of `started`."""
        elapsed, total = now - self.started, self.total()
        parts = [f"{self.done:,} of {total:,} items" if total else count(self.done, "item")]
        rate = self.done / elapsed if elapsed >= _MIN_SECONDS else 0.0
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
        return ", ".join(parts)


class Progress(Protocol):
    """Shows a run while it goes on."""

    def __enter__(self) -> Self:
        """Begin to show."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End, leaving the screen as it should be."""
        ...

    def add(self, outcome: Outcome) -> None:
        """Take one Outcome into account."""
        ...

    def say(self, text: str) -> None:
        """One line that stays."""
        ...


class PlainProgress:
    """A line now and then, for a log.

    Args:
        output: where lines go.
        total: items that there are; None while that is not known.
        every_seconds: between two lines.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        output: Output,
        total: Callable[[], int | None],
        *,
        every_seconds: float = _CALM_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._output = output
        self._clock = clock
        self._every_seconds = every_seconds
        self._tally = Tally(total, clock())
        self._next = clock() + every_seconds

    def __enter__(self) -> Self:
        """Nothing is shown at first."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The result says the rest."""

    def add(self, outcome: Outcome) -> None:
        """Say how far it is, where it is time to."""
        self._tally.add(outcome)
        now = self._clock()
        if now >= self._next:
            self._next = now + self._every_seconds
            self._output.say(self._tally.describe(now))

    def say(self, text: str) -> None:
        """One line."""
        self._output.complain(text)


def open_progress(output: Output, total: Callable[[], int | None]) -> Progress:
    """A live bar on a terminal, calm lines elsewhere, nothing when quiet."""
    if output.quiet or not is_rich(output.stderr):
        return PlainProgress(output, total)
    from vcache_cli.cli.rich_progress import RichProgress

    return RichProgress(output.stderr, total)


def item_line(outcome: Outcome) -> str:
    """What became of an item: ``source: stage: kind: message; what to do``.

    A skipped item has ``skipped`` for a stage; one that is well has only its status.
    """
    source, failure = outcome.item.source, outcome.failure
    if failure is None:
        return clean(f"{source}: {outcome.status.value}")
    place = "skipped" if outcome.status is Status.SKIPPED else failure.stage
    told = f"{source}: {place}: {failure.kind}: {failure.message}"
    return clean(f"{told}; {failure.hint}" if failure.hint else told)


def calm_counter(
    output: Output,
    verb: str,
    *,
    every_seconds: float = _CALM_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[int, int], None]:
    """Says now and then how many of how many entries are done."""
    following = clock() + every_seconds

    def tell(done: int, total: int) -> None:
        nonlocal following
        now = clock()
        if now >= following:
            following = now + every_seconds
            output.say(f"{verb} {done:,} of {count(total, 'entry', 'entries')}")

    return tell
