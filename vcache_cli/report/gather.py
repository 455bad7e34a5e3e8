"""Makes the report of a run: its file, and what its store holds now."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vcache_cli.items import display_path
from vcache_cli.outcome import Status
from vcache_cli.quantity import format_time
from vcache_cli.report.compare import compare_runs
from vcache_cli.report.copies import list_copies
from vcache_cli.report.fold import HELD, MAX_LISTED, STAGES, RunFold, fold_run
from vcache_cli.report.holdings import Held, held_now
from vcache_cli.report.lines import number, texts, whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from vcache_cli.store import StoreRoot
    from vcache_cli.store.run_file import Run
    from vcache_cli.store.stats import StoreStats

__all__ = ["Report", "make_report"]

_IDLE: Final = 0.05
"""Share of the time below which the work of all stages is not worth a word."""
_MOMENT: Final = 1e-6
"""Seconds in which no run ends: a file that says less does not know."""
_NAMED: Final = ("target", "stage", "model", "profile", "recipe", "cwd")
"""What the summary says of the run as a whole."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did, and what its store holds. A value; `as_json` is what every document shows."""

    run: Run
    fields: Mapping[str, Any]
    gates: tuple[Mapping[str, Any], ...] = field(default=())

    @property
    def folder(self) -> str | None:
        """Printable name of the folder that relative sources are meant in; None: not known."""
        found = self.fields["run"].get("cwd")
        return found if isinstance(found, str) else None

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.report/1``."""
        return {**self.fields, "gates": list(self.gates)}


def make_report(
    run: Run,
    *,
    root: StoreRoot | None = None,
    stats: StoreStats | None = None,
    before: Run | None = None,
    verified: Mapping[str, Any] | None = None,
) -> Report:
    """The report of a run.

    Args:
        run: its file.
        root: the store, for what is known of entries only there; None: the file alone.
        stats: what the store holds.
        before: a run to compare with.
        verified: of a check of the store: ``level``, ``checked``, ``damaged``.
    """
    earlier = fold_run(before.outcomes()) if before else None
    fold = fold_run(run.outcomes(), watched=earlier.failed if earlier else frozenset())
    fields = _of_run(run, fold, held_now(root, fold.keys) if root else None)
    fields |= list_copies(run, fold)
    if stats is not None:
        fields["holds"] = _holds(stats)
    if verified is not None:
        fields["verified"] = dict(verified)
    if before is not None and earlier is not None:
        then = _of_run(before, earlier, held_now(root, earlier.keys) if root else None)
        fields["comparison"] = compare_runs(then, fields, earlier=earlier, fold=fold)
    return Report(run, fields)


def _of_run(run: Run, fold: RunFold, held: Held | None) -> dict[str, Any]:
    """What the file of one run says."""
    summary: Mapping[str, Any] = run.summary or {}
    items = _items(fold)
    asked = items["total"] - items["skipped"]
    ready = sum(items[status] for status in HELD)
    fields: dict[str, Any] = {
        "run": _described(run, summary),
        "items": items,
        "bytes": {"read": fold.bytes_read, "written": fold.bytes_written},
        "seconds": _seconds(fold, summary),
        "kinds": dict(sorted(fold.kinds.items())),
        "skips": dict(sorted(fold.skips.items())),
    }
    if asked:
        fields["hit_rate"] = items[Status.PRESENT] / asked
        fields["coverage"] = (ready - (held.items_gone if held else 0)) / asked
    if total := fields["seconds"].get("total"):
        fields["items_per_second"] = round(items["total"] / total, 3)
    if busiest := _busiest(fields["seconds"]):
        fields["bottleneck"] = busiest
    if held is not None:
        fields |= held.as_json()
    return fields | _lists(fold)


def _items(fold: RunFold) -> dict[str, int]:
    return {"total": fold.done, **{status.value: fold.statuses[status] for status in Status}}


def _described(run: Run, summary: Mapping[str, Any]) -> dict[str, Any]:
    state = "running" if run.live else "ended" if run.summary is not None else "killed"
    if summary.get("interrupted") is True:
        state = "running" if run.live else "interrupted"
    value: dict[str, Any] = {
        "id": run.id,
        "file": display_path(os.path.abspath(run.path)),
        "started": format_time(run.started_seconds),
        "state": state,
    }
    known = texts(summary)
    value |= {name: known[name] for name in _NAMED if name in known}
    encoder = summary.get("encoder")
    if isinstance(encoder, dict) and texts(encoder):
        value["encoder"] = texts(encoder)
    return value


def _seconds(fold: RunFold, summary: Mapping[str, Any]) -> dict[str, float]:
    """Per stage, summed over items; and `total`, which passed on the clock, where it is known."""
    told = summary.get("seconds")
    clock: Mapping[str, Any] = told if isinstance(told, dict) else {}
    seconds = {stage: round(fold.seconds.get(stage, 0.0), 6) for stage in STAGES}
    seconds["discover"] = number(clock.get("discover")) or seconds["discover"]
    total = number(clock.get("total")) or 0.0
    return {"total": total, **seconds} if total > _MOMENT else seconds


def _busiest(seconds: Mapping[str, float]) -> str | None:
    """The stage with the most work; None where next to nothing was done."""
    most = max(STAGES, key=lambda stage: seconds[stage])
    work = sum(seconds[stage] for stage in STAGES)
    return most if work > _IDLE * seconds.get("total", 0.0) else None


def _lists(fold: RunFold) -> dict[str, Any]:
    failed = whole(fold.statuses[Status.FAILED])
    warned = sum(entry[0] for entry in fold.warning_kinds.values())
    value: dict[str, Any] = {
        "failure_kinds": [
            {"stage": stage, "kind": kind, "items": items}
            for (stage, kind), items in fold.failure_kinds.most_common(MAX_LISTED)
        ],
        "failures": fold.failures,
        "warned": warned,
        "warning_kinds": [
            {"kind": kind, "items": items, "message": message, "source": source}
            for kind, (items, message, source) in sorted(fold.warning_kinds.items())
        ],
        "warnings": fold.warnings,
        "slowest": [
            {"source": source, "total": round(total, 6), "seconds": seconds}
            for total, _, source, seconds in sorted(fold.slowest, reverse=True)
        ],
    }
    omitted = {"failures": failed, "warnings": warned}
    for name, total in omitted.items():
        if total > len(value[name]):
            value[f"{name}_omitted"] = total - len(value[name])
    return value


def _holds(stats: StoreStats) -> dict[str, Any]:
    """The fields of ``vcache.stats/1`` that a report shows."""
    told = stats.as_json()
    names = ("target", "entries", "bytes", "by_model", "by_kind", "by_age", "recency", "limits")
    return {name: told[name] for name in names} | {"fs": told["fs"]}
