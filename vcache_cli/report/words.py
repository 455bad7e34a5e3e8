"""What every document says in the same words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.quantity import format_size
from vcache_cli.report.fold import STAGES
from vcache_cli.wording import count, duration, percent

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

__all__ = [
    "STATUSES",
    "brief",
    "changed",
    "counts",
    "headline",
    "left_out",
    "moment",
    "stage_shares",
    "state",
    "valued",
]

STATUSES: Final = ("stored", "present", "copy", "skipped", "failed")
_STATES: Final = {
    "interrupted": "The run was interrupted: what is not listed here was not reached.",
    "killed": "The run was killed before it could sum itself up: what is not listed here was not"
    " reached.",
    "running": "The run is not over: these are the items so far.",
}


def headline(report: Mapping[str, Any]) -> str:
    """What came of it, in a sentence."""
    items = report["items"]
    asked = items["total"] - items["skipped"]
    if not items["total"]:
        return "Nothing was reached"
    if not asked:
        return f"None of {count(items['total'], 'file')} is a picture"
    ready = round(report["coverage"] * asked)
    if not ready:
        return _none(asked)
    if ready < asked:
        return f"{ready:,} of {count(asked, 'item')} {'is' if ready == 1 else 'are'} ready"
    if items["present"] == asked:
        return f"{_all(asked)} there already"
    return f"{_all(asked)} ready"


def _all(number: int) -> str:
    return "The one item is" if number == 1 else f"All {number:,} items are"


def _none(number: int) -> str:
    return "The one item is not ready" if number == 1 else f"None of {number:,} items is ready"


def state(report: Mapping[str, Any]) -> str:
    """A warning where the run has not come to its end; empty where it has."""
    return _STATES.get(report["run"]["state"], "")


def counts(report: Mapping[str, Any]) -> str:
    """What became of the items, those that there are."""
    items = report["items"]
    named = [f"{items[name]:,} {name}" for name in STATUSES if items[name]]
    return ", ".join(named) or "none"


def stage_shares(report: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """Stage, seconds, and share of the work of all."""
    seconds = report["seconds"]
    work = sum(seconds[stage] for stage in STAGES)
    return [(stage, seconds[stage], seconds[stage] / work if work else 0.0) for stage in STAGES]


def left_out(report: Mapping[str, Any], name: str, shown: int) -> str:
    """How many more there are of a list than are shown; empty where none."""
    more = len(report[name]) + report.get(f"{name}_omitted", 0) - shown
    return f"and {more:,} more; the run file has them all" if more > 0 else ""


def moment(text: str) -> str:
    """An RFC 3339 moment in UTC as people read it.

    >>> moment("2026-01-02T03:04:05Z")
    '2026-01-02 03:04 UTC'
    """
    return f"{text[:10]} {text[11:16]} UTC" if len(text) == 20 else text


def valued(value: float | None, unit: str) -> str:
    """A value in its unit; a dash where it is not known."""
    if value is None:
        return "\N{EN DASH}"
    if unit == "count":
        return f"{value:,.0f}"
    return _UNITS[unit](value) if unit in _UNITS else f"{value:,.1f}"


def brief(seconds: float) -> str:
    """Seconds where most are a part of one.

    >>> brief(0.0), brief(0.00042), brief(0.0375), brief(0.42), brief(2.5)
    ('0', '0.42 ms', '37.5 ms', '420 ms', '2.50 s')
    """
    if not seconds:
        return "0"
    if seconds >= 0.9995:
        return duration(seconds)
    milliseconds = seconds * 1000
    return f"{milliseconds:.3g} ms" if milliseconds < 100 else f"{milliseconds:.0f} ms"


_UNITS: Final = {"share": percent, "bytes": format_size, "seconds": brief}


def changed(change: Mapping[str, Any]) -> str:
    """The difference of a comparison's line, with its sign; empty where there is none."""
    if "before" not in change or "after" not in change:
        return ""
    difference = change["after"] - change["before"]
    if change["unit"] == "share":
        shown = f"{abs(difference) * 100:.1f} points"
    else:
        shown = valued(abs(difference), change["unit"])
    if shown in {"0.0 points", valued(0, change["unit"])}:
        return ""
    return ("+" if difference > 0 else "\N{MINUS SIGN}") + shown
