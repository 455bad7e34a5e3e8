"""Drives a warm: shows its Outcomes as they come, and says how it ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from vcache_cli.cli.corpus import count_ahead
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.errors import Problem, explain, worst
from vcache_cli.cli.events import Events, open_events
from vcache_cli.cli.interrupts import Interrupts
from vcache_cli.cli.manifest import Manifest, open_manifest
from vcache_cli.cli.next_steps import next_steps
from vcache_cli.cli.output import WORDS, Output
from vcache_cli.cli.progress import Progress, is_live, item_line, open_progress
from vcache_cli.cli.text import count
from vcache_cli.errors import (
    AccessError,
    ModelError,
    RefusedError,
    StoreFullError,
    VcacheError,
)
from vcache_cli.items import Kind, display_path
from vcache_cli.outcome import Outcome, PresentFiles, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Final

    from vcache_cli.assemble import WarmRun
    from vcache_cli.cli.requests import Request

__all__ = ["Ended", "Watcher", "run_warm"]

_ENDS_THE_RUN: Final = frozenset(
    each.kind for each in (StoreFullError, AccessError, ModelError, RefusedError)
)
"""Kinds of failures that the error at the end tells once for all items in flight."""

_SHOWN_LINES: Final = 100
"""Failures and warnings shown one by one; the document and the run file have more."""

_SHOWN_OF_A_KIND: Final = 3
"""Warnings of one kind shown one by one: a corpus of icons would bury everything else."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended."""

    document: Mapping[str, Any]
    """``vcache.warm/1``."""
    problem: Problem | None
    """What is wrong; None where nothing is."""
    steps: tuple[str, ...]
    """What to do next."""


def run_warm(
    wanted: Request, output: Output, *, events: str | None, manifest: str | None = None
) -> Ended:
    """Run it to its end, or to the point where it must stop.

    Raises:
        VcacheError, KeyboardInterrupt: it ended before the first item had an Outcome.
    """
    from vcache_cli.assemble import open_warm

    with (
        open_events(events) as log,
        open_manifest(manifest) as keys,
        open_warm(
            wanted.corpus, store=wanted.place, model=wanted.model, options=wanted.options
        ) as run,
    ):
        total = count_ahead(wanted.corpus, walk=is_live(output))
        progress = open_progress(output, total, lanes=run.lanes)
        with Interrupts(run.stop, progress.note) as interrupts, progress:
            watcher = Watcher(log, progress, output, keys)
            error = _follow(run, watcher)
            watcher.tell_rest()
        error = error or interrupts.error
        if error and not watcher.seen:
            raise error
        summary = run.summary()
    fields = summary.as_json()
    if wanted.url:
        fields["run_file"] = display_path(str(run.run_file))
    for reason, number in watcher.videos.items():
        output.say(f"{count(number, 'video')} skipped: {reason}")
    document = envelope("warm", fields, store=wanted.place)
    problem = _worst(explain(error) if error else None, _failed(fields))
    code = problem.code if problem else 0
    return Ended(document, problem, tuple(next_steps(document, code, WORDS.get(), summary.note)))


class Watcher:
    """Shows each Outcome where it belongs.

    Args:
        log: takes every one.
        progress: counts them, and shows lines.
        output: knows what the user wants to see.
        keys: takes the key of each that is in the store.
    """

    def __init__(self, log: Events, progress: Progress, output: Output, keys: Manifest) -> None:
        self._log = log
        self._keys = keys
        self._progress = progress
        self._output = output
        self._lines = 0
        self._warned: Counter[str] = Counter()
        self.seen = 0
        """Outcomes so far."""
        self.videos: Counter[str] = Counter()
        """Skipped ones that had no line of their own, by why."""

    def see(self, outcomes: Sequence[Outcome]) -> None:
        """Take Outcomes."""
        self.seen += len(outcomes)
        self._log.write(outcomes)
        self._keys.write(outcomes)
        self._progress.add(outcomes)
        if isinstance(outcomes, PresentFiles) and not self._output.verbose:
            return
        for line in chain.from_iterable(map(self._told, filter(self._tells, outcomes))):
            self._lines += 1
            if self._lines <= _SHOWN_LINES or self._output.verbose:
                self._progress.say(line)
            elif self._lines == _SHOWN_LINES + 1:
                self._progress.say("more of these are in the run file; --verbose shows them all")

    def tell_rest(self) -> None:
        """Count the warnings that had no line of their own, a line for each kind."""
        for kind, number in self._warned.items():
            if number > _SHOWN_OF_A_KIND and not self._output.verbose:
                more = number - _SHOWN_OF_A_KIND
                self._progress.say(f"{kind}: {more:,} more; all are in the run's file")

    def _tells(self, outcome: Outcome) -> bool:
        plain = outcome.status is Status.PRESENT and not outcome.notices
        return self._output.verbose or not plain

    def _told(self, outcome: Outcome) -> list[str]:
        if outcome.status is Status.FAILED:
            return self._failed(outcome)
        if self._output.quiet:
            return []
        lines = list(self._warnings(outcome))
        skipped = outcome.status is Status.SKIPPED
        if self._output.verbose or (skipped and outcome.item.explicit):
            return [*lines, item_line(outcome)]
        if skipped and outcome.kind is Kind.VIDEO and outcome.failure:
            self.videos[outcome.failure.message] += 1
        return lines

    def _warnings(self, outcome: Outcome) -> Iterator[str]:
        for each in outcome.notices:
            self._warned[each.kind] += 1
            if self._warned[each.kind] <= _SHOWN_OF_A_KIND or self._output.verbose:
                yield f"{outcome.item.source}: warning: {each.kind}: {each.message}"

    def _failed(self, outcome: Outcome) -> list[str]:
        """One line; none for the items in flight where the error that ends the run says it all."""
        ended = outcome.failure and outcome.failure.kind in _ENDS_THE_RUN
        return [] if ended and not self._output.verbose else [item_line(outcome)]


def _follow(run: WarmRun, watcher: Watcher) -> VcacheError | KeyboardInterrupt | None:
    try:
        for outcomes in run.batches():
            watcher.see(outcomes)
    except VcacheError as error:
        return error
    except KeyboardInterrupt as error:
        run.abandon()
        return error
    return None


def _failed(fields: Mapping[str, Any]) -> Problem | None:
    failed, total = fields["items"]["failed"], fields["items"]["total"]
    if not failed:
        return None
    return Problem(
        3,
        "items_failed",
        f"{failed:,} of {count(total, 'item')} failed",
        "mend or leave out what failed; what did not change is tried again only with"
        " --retry-errors",
    )


def _worst(*problems: Problem | None) -> Problem | None:
    found: dict[int, Problem] = {}
    for problem in problems:
        if problem:
            found.setdefault(problem.code, problem)
    return found.get(worst(found))
