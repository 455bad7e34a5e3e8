"""Progress of a run on stderr: what is shown is a pure function of what has happened."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from vcache_cli.cli.output import Output, is_terminal
from vcache_cli.cli.tally import Tally
from vcache_cli.cli.text import clean, count
from vcache_cli.outcome import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Final, Self

    from vcache_cli.outcome import Outcome

__all__ = ["PlainProgress", "Progress", "calm_counter", "is_live", "item_line", "open_progress"]

_CALM_SECONDS: Final = 5.0
"""Between two plain lines, at first."""

_CALMER: Final = 20
"""A run of this many times longer may keep a line waiting for that time."""

_CALMEST_SECONDS: Final = 60.0

_SILENT_SECONDS: Final = 60.0
"""After which a run says that it goes on, where nothing else was said."""


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

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Take Outcomes into account."""
        ...

    def say(self, text: str) -> None:
        """One line that stays."""
        ...

    def note(self, text: str) -> None:
        """One line that stays, said from within a signal handler."""
        ...


class PlainProgress:
    """A line now and then, for a log; the longer the run, the rarer.

    Args:
        output: where lines go.
        tally: counts nothing yet; its clock is `clock`.
        every_seconds: between two lines.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        output: Output,
        tally: Tally,
        *,
        every_seconds: float = _CALM_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._output = output
        self._clock = clock
        self._every_seconds = every_seconds
        self._tally = tally
        self._next = tally.started + every_seconds
        self._said = tally.started
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._reminder = threading.Thread(target=self._remind, name="progress", daemon=True)

    def __enter__(self) -> Self:
        """Nothing is shown at first."""
        if not (self._output.quiet or self._output.json):
            self._reminder.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The result says the rest."""
        self._ended.set()
        if self._reminder.is_alive():
            self._reminder.join()

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Say how far it is, where it is time to."""
        with self._lock:
            self._tally.add(outcomes)
            now = self._clock()
            if now >= self._next:
                longer = min((now - self._tally.started) / _CALMER, _CALMEST_SECONDS)
                self._next = now + max(self._every_seconds, longer)
                self._said = now
                self._output.say("; ".join(filter(None, self._told(now))))

    def remind(self) -> float:
        """Say that it goes on, where one item takes long; seconds until that may be so again."""
        with self._lock:
            now = self._clock()
            if (left := self._said + _SILENT_SECONDS - now) > 0:
                return left
            self._said = now
            self._output.say(f"still at work: {self._tally.describe(now)}")
            return _SILENT_SECONDS

    def _remind(self) -> None:
        while not self._ended.wait(self.remind()):
            pass

    def _told(self, now: float) -> tuple[str, str]:
        return self._tally.describe(now), self._tally.slowest(now)

    def say(self, text: str) -> None:
        """One line."""
        with self._lock:
            self._said = self._clock()
            self._output.complain(text)

    def note(self, text: str) -> None:
        """One line, straight to the descriptor: the stream may be in use right now."""
        with suppress(OSError):  # a stream without a descriptor, or nobody reads it
            os.write(self._output.stderr.fileno(), f"{clean(text)}\n".encode())


def is_live(output: Output) -> bool:
    """True where lines can be drawn again: on a terminal that somebody watches."""
    return not output.quiet and is_terminal(output.stderr) and not os.environ.get("CI")


def open_progress(
    output: Output,
    total: Callable[[], int | None],
    *,
    lanes: Mapping[str, int],
    clock: Callable[[], float] = time.monotonic,
) -> Progress:
    """Live lines on a terminal, calm ones elsewhere, nothing when quiet.

    Args:
        output: where it goes.
        total: see `Tally`.
        lanes: see `Tally`.
        clock: seconds that only grow.
    """
    tally = Tally(total, clock(), lanes)
    if not is_live(output):
        return PlainProgress(output, tally, clock=clock)
    from vcache_cli.cli.live_progress import LiveProgress

    return LiveProgress(output.stderr, tally, clock=clock)


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
