"""The report as Markdown, for the summary of a CI job. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vcache_cli.quantity import format_size
from vcache_cli.report.markup import escape
from vcache_cli.report.words import (
    brief,
    changed,
    counts,
    headline,
    left_out,
    stage_shares,
    state,
    valued,
)
from vcache_cli.wording import count, duration, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Final

__all__ = ["markdown"]

_SHOWN: Final = 100
"""Rows of a table: a job's summary has room for a mebibyte in all."""
_LONG: Final = 300
"""Characters of one cell."""
_MARKS: Final = re.compile(r"[\\`*_{}\[\]()+!|~^$:@]|(?<=www)\.")


def markdown(report: Mapping[str, Any]) -> str:
    """The document ``vcache.report/1`` as GitHub's Markdown."""
    return "\n\n".join(_blocks(report)) + "\n"


def _blocks(report: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {_text(headline(report))}"
    if note := state(report):
        yield f"> {_text(note)}"
    yield _table(("", ""), [(name, value) for name, value in _numbers(report)])
    if report["gates"]:
        yield "### Gates"
        yield _table(
            ("gate", "found", "result"),
            [
                (_code(each["gate"]), _text(each["shown"]), "met" if each["met"] else "**not met**")
                for each in report["gates"]
            ],
        )
    yield from _failures(report)
    yield from _comparison(report)
    yield from _stages(report)
    yield from _warnings(report)


def _numbers(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    run, moved = report["run"], report["bytes"]
    parts = [run[name] for name in ("model", "stage", "target") if name in run]
    if parts:
        yield "model", _text(", ".join(parts))
    yield "items", f"{report['items']['total']:,} ({_text(counts(report))})"
    if "coverage" in report:
        yield "ready", percent(report["coverage"])
        yield "hit rate", percent(report["hit_rate"])
    if "total" in report["seconds"]:
        yield "time", duration(report["seconds"]["total"])
    yield "bytes", f"{format_size(moved['read'])} read, {format_size(moved['written'])} written"
    if "tokens" in report:
        yield "tokens", f"{report['tokens']['total']:,}"
    if held := report.get("holds"):
        entries = count(held["entries"], "entry", "entries")
        yield "store", f"{entries}, {format_size(held['bytes']['logical'])}"
    yield "run", _code(run["id"])


def _failures(report: Mapping[str, Any]) -> Iterator[str]:
    shown = report["failures"][:_SHOWN]
    if not shown:
        return
    rows = [
        (
            _code(each["source"]),
            _text(each["stage"]),
            _text(each["kind"]),
            _text("; ".join(filter(None, (each["message"], each.get("hint"))))),
        )
        for each in shown
    ]
    yield f"### {count(report['items']['failed'], 'item')} failed"
    yield _table(("source", "stage", "kind", "why"), rows)
    if more := left_out(report, "failures", len(shown)):
        yield _text(more)


def _comparison(report: Mapping[str, Any]) -> Iterator[str]:
    found = report.get("comparison")
    if not found:
        return
    rows = [
        (
            _text(each["name"]),
            valued(each.get("before"), each["unit"]),
            valued(each.get("after"), each["unit"]),
            changed(each),
        )
        for each in found["changes"]
        if changed(each)
    ]
    yield f"### Since run {_code(found['run'])}"
    yield _table(("", "before", "now", "change"), rows) if rows else "No number changed."
    for name, title in (("newly_failed", "Fails now"), ("mended", "Does not fail any more")):
        listed = ", ".join(map(_code, found[name][:20]))
        more = len(found[name]) + found.get(f"{name}_omitted", 0) - 20
        if listed:
            yield f"{title}: {listed}" + (f", and {more:,} more" if more > 0 else "")


def _stages(report: Mapping[str, Any]) -> Iterator[str]:
    if "bottleneck" in report:
        rows = [
            (stage, brief(spent), f"{share * 100:.0f}%")
            for stage, spent, share in stage_shares(report)
        ]
        yield _folded("Where the time went", _table(("stage", "seconds", "share"), rows))


def _warnings(report: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (_text(each["kind"]), f"{each['items']:,}", _text(each["message"]))
        for each in report["warning_kinds"][:_SHOWN]
    ]
    if rows:
        told = count(report["warned"], "warning")
        yield _folded(told, _table(("kind", "items", "what"), rows))


def _folded(title: str, inner: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{inner}\n\n</details>"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _code(text: str) -> str:
    return f"<code>{_text(text)}</code>"


def _text(text: str) -> str:
    """`text` in which nothing is a mark, a link, a mention or an element."""
    short = text if len(text) <= _LONG else text[: _LONG - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return _MARKS.sub(lambda found: f"&#{ord(found[0])};", escape(short).replace("&#x27;", "'"))
