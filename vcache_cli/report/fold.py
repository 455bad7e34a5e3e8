"""Folds the lines of a run file into what a report says of the run. Pure, and bounded."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vcache_cli.outcome import Status
from vcache_cli.report.lines import Line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet
    from typing import Final

__all__ = ["HELD", "MAX_LISTED", "STAGES", "RunFold", "fold_run", "packed"]

MAX_LISTED: Final = 1_000
"""Longest list of a report; the run file has them all."""
MAX_WATCHED: Final = 100_000
"""Failing sources of a run that another one is compared with."""
_SLOWEST: Final = 10
STAGES: Final = ("discover", "digest", "decode", "preprocess", "encode", "write")
"""The stages that take time, in the order of the pass."""
HELD: Final = frozenset({Status.STORED, Status.PRESENT, Status.COPY})
"""What became of items whose entries are in the store."""


@dataclass(slots=True)
class RunFold:
    """Counts of a run. Grows with keys and failures, with nothing else of an item."""

    statuses: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Seconds summed over items, per stage."""
    keys: Counter[bytes | str] = field(default_factory=Counter)
    """Items that are in the store by key, packed; see `packed`."""
    failures: list[dict[str, str]] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    """Sources that failed; bounded."""
    failure_kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Failed items by stage and kind."""
    skips: Counter[str] = field(default_factory=Counter)
    warnings: list[dict[str, str]] = field(default_factory=list)
    warning_kinds: dict[str, list[Any]] = field(default_factory=dict)
    """Items, message and source of the first, by kind."""
    slowest: list[tuple[float, int, str, dict[str, float]]] = field(default_factory=list)
    """A heap of seconds, position, source, and seconds per stage."""
    mended: list[str] = field(default_factory=list)
    """Sources that were watched, and did not fail this time."""

    @property
    def done(self) -> int:
        """Items that have an Outcome."""
        return self.statuses.total()

    @property
    def repeats(self) -> int:
        """Items beyond the first of their key."""
        return self.keys.total() - len(self.keys)

    def repeated(self) -> set[bytes | str]:
        """Keys that more than one item has, those of most items first; bounded."""
        return {key for key, items in self.keys.most_common(MAX_LISTED) if items > 1}

    def add(self, line: Line, *, watched: AbstractSet[str] = frozenset()) -> None:
        """Take one line of the file."""
        self.statuses[line.status] += 1
        self.bytes_read += line.bytes_read
        self.bytes_written += line.bytes_written
        if line.kind:
            self.kinds[line.kind] += 1
        if line.seconds:
            self._time(line)
        if line.status in HELD:
            if line.key:
                self.keys[packed(line.key)] += 1
            if line.source in watched and len(self.mended) < MAX_LISTED:
                self.mended.append(line.source)
        elif line.status == Status.FAILED:
            self._fail(line)
        else:
            self.skips[line.failure.get("kind", "unknown")] += 1
        for kind, message in line.warnings:
            self._warn(line.source, kind, message)

    def _time(self, line: Line) -> None:
        for stage, spent in line.seconds.items():
            self.seconds[stage] += spent
        entry = (sum(line.seconds.values()), -self.done, line.source, dict(line.seconds))
        if len(self.slowest) < _SLOWEST:
            heapq.heappush(self.slowest, entry)
        else:
            heapq.heappushpop(self.slowest, entry)

    def _fail(self, line: Line) -> None:
        failure = {name: line.failure.get(name, "unknown") for name in ("stage", "kind", "message")}
        if hint := line.failure.get("hint"):
            failure["hint"] = hint
        self.failure_kinds[failure["stage"], failure["kind"]] += 1
        if len(self.failures) < MAX_LISTED:
            self.failures.append({"source": line.source, **failure})
        if len(self.failed) < MAX_WATCHED:
            self.failed.add(line.source)

    def _warn(self, source: str, kind: str, message: str) -> None:
        if kind in self.warning_kinds:
            self.warning_kinds[kind][0] += 1
        elif len(self.warning_kinds) < MAX_LISTED:
            self.warning_kinds[kind] = [1, message, source]
        if len(self.warnings) < MAX_LISTED:
            self.warnings.append({"source": source, "kind": kind, "message": message})


def packed(key: str) -> bytes | str:
    """A key in few bytes: half as many where it is hexadecimal."""
    try:
        return bytes.fromhex(key)
    except ValueError:
        return key


def fold_run(
    lines: Iterable[Mapping[str, Any]], *, watched: AbstractSet[str] = frozenset()
) -> RunFold:
    """The fold of a run's lines, whoever wrote them.

    Args:
        lines: as in the file.
        watched: sources of which it is asked whether they do not fail any more.
    """
    fold = RunFold()
    for each in lines:
        if line := Line.of(each):
            fold.add(line, watched=watched)
    return fold
