"""The sections of the page about a run. Pure, but for the thumbnails' maker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.quantity import format_size
from vcache_cli.report.fold import STAGES
from vcache_cli.report.markup import Cell, Column, Row, bar, escape, item_list, source, table
from vcache_cli.report.words import (
    STATUSES,
    brief,
    counts,
    left_out,
    stage_shares,
)
from vcache_cli.wording import count, duration, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vcache_cli.report.thumbnails import Thumbnails

__all__ = [
    "copies",
    "failures",
    "gates",
    "outcome",
    "slowest",
    "stages",
    "warned",
]


def outcome(report: Mapping[str, Any]) -> str:
    """Tiles with the numbers, and a bar of what became of the items."""
    items = report["items"]
    total = items["total"]
    tiles = "".join(
        f'<div><dt>{escape(name)}</dt><dd class="big{css}">{escape(value)}</dd>'
        f'<dd class="small">{escape(more)}</dd></div>'
        for name, value, more, css in _tiles(report)
    )
    if not total:
        return f'<dl class="tiles">{tiles}</dl>'
    parts = [(name, items[name] / total) for name in STATUSES if items[name]]
    legend = item_list(
        [
            f'<svg aria-hidden="true" focusable="false"><rect class="fill-{name}" width="100%"'
            f' height="100%"/></svg><b>{items[name]:,}</b> {name}'
            for name, _ in parts
        ],
        "legend",
    )
    told = f"Of {count(total, 'item')}: {counts(report)}"
    return f'<dl class="tiles">{tiles}</dl><div class="mix">{bar(parts, told)}</div>{legend}'


def _tiles(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Name, value, explanation and CSS class."""
    items, moved, seconds = report["items"], report["bytes"], report["seconds"]
    asked = items["total"] - items["skipped"]
    if "coverage" in report:
        ready = round(report["coverage"] * asked)
        yield "Ready now", percent(report["coverage"]), f"{ready:,} of {count(asked, 'item')}", ""
        there = f"{items['present']:,} there before the run"
        yield "Hit rate", percent(report["hit_rate"]), there, ""
    share = f"{percent(items['failed'] / asked)} of the items" if asked else ""
    yield "Failed", f"{items['failed']:,}", share, " bad" if items["failed"] else ""
    if "total" in seconds:
        rate = f"{report['items_per_second']:,.1f} items a second" if items["total"] else ""
        yield "Time", duration(seconds["total"]), rate, ""
    yield "Written", format_size(moved["written"]), f"{format_size(moved['read'])} read", ""
    if "tokens" in report:
        tokens = report["tokens"]
        least, most = tokens["least"], tokens["most"]
        each = f"{least:,} each" if least == most else f"{least:,} to {most:,} each"
        yield "Tokens", f"{tokens['total']:,}", each, ""


def gates(report: Mapping[str, Any]) -> str:
    """Each gate, what was found, and whether it holds."""
    rows = [
        Row(
            (
                Cell(f"<code>{escape(each['gate'])}</code>"),
                Cell(escape(each["shown"])),
                Cell(_verdict(met=each["met"]), "met" if each["met"] else "not met"),
            )
        )
        for each in report["gates"]
    ]
    return table("Conditions of this report", [*map(Column, ("gate", "found", "result"))], rows)


def _verdict(*, met: bool) -> str:
    css, word = ("better", "met") if met else ("worse", "not met")
    return f'<span class="pill {css}">{word}</span>'


def stages(report: Mapping[str, Any]) -> str:
    """A bar for each stage."""
    busiest = report.get("bottleneck")
    if busiest is None:
        return ""
    shares = stage_shares(report)
    longest = max(share for _, _, share in shares)
    bars = "".join(
        f'<li class="{"busy" if stage == busiest else ""}"><span class="name">{stage}</span>'
        f'<span class="track">{bar([("busy" if stage == busiest else "stage", share / longest)])}'
        f'</span><span class="much">{brief(spent)} &middot; {share * 100:.0f}%</span></li>'
        for stage, spent, share in shares
    )
    told = (
        f"Most of the work was to {busiest}. Seconds are summed over items, and stages run side by"
        " side, so that they may add up to more than passed on the clock."
    )
    return f'<p class="told">{told}</p><ul class="bars">{bars}</ul>'


def failures(report: Mapping[str, Any], thumbnails: Thumbnails) -> str:
    """What failed, why, and what to do."""
    shown = report["failures"]
    rows = [
        Row(
            (
                _picture(thumbnails, each["source"], each["kind"]),
                Cell(source(each["source"]), each["source"]),
                Cell(escape(each["stage"]), _stage_order(each["stage"])),
                Cell(escape(each["kind"])),
                Cell(escape(each["message"]) + _hint(each.get("hint", "")), each["message"]),
            ),
            "pictured",
        )
        for each in shown
    ]
    if not rows:
        return ""
    kinds = ", ".join(
        f"{each['items']:,} {escape(each['kind'])}" for each in report["failure_kinds"][:8]
    )
    told = (
        f'<p class="told">{count(report["items"]["failed"], "item")} failed: {kinds}. To try them'
        " again: <code>vcache report --out failed.txt</code>, then"
        " <code>vcache warm --retry-errors @failed.txt</code> with the model and the store.</p>"
    )
    columns = [
        Column("picture", "pic"),
        Column("source", "text"),
        Column("stage"),
        Column("kind"),
        Column("why", "text"),
    ]
    more = left_out(report, "failures", len(shown))
    return told + table("Failed items", columns, rows, more=more, css="cards")


def _stage_order(stage: str) -> str:
    """Sorts in the order of the pass."""
    return f"{STAGES.index(stage) if stage in STAGES else len(STAGES)} {stage}"


def _hint(hint: str) -> str:
    return f'<span class="hint">{escape(hint)}</span>' if hint else ""


def _picture(thumbnails: Thumbnails, name: str, kind: str = "") -> Cell:
    found = thumbnails.of(name, kind)
    if found.reason:
        return Cell(f'<span class="nothumb">{escape(found.reason)}</span>', found.reason)
    what = "What can be read of " if found.partial else ""
    return Cell(
        f'<span class="thumb"><img src="{found.uri}" width="{found.width}"'
        f' height="{found.height}" alt="{escape(what + name)}"></span>',
        "",
    )


def warned(report: Mapping[str, Any], thumbnails: Thumbnails) -> str:
    """Warnings by kind, with the first picture of each."""
    rows = [
        Row(
            (
                _picture(thumbnails, each["source"]),
                Cell(escape(each["kind"])),
                Cell(f"{each['items']:,}", each["items"]),
                Cell(escape(each["message"])),
                Cell(source(each["source"]), each["source"]),
            ),
            "pictured",
        )
        for each in report["warning_kinds"]
    ]
    if not rows:
        return ""
    columns = [
        Column("picture", "pic"),
        Column("kind"),
        Column("items", "num"),
        Column("what", "text"),
        Column("such as", "text"),
    ]
    told = f"{count(report['warned'], 'warning')}. The server does the same to these pictures."
    return f'<p class="told">{told}</p>' + table("Warnings", columns, rows, css="cards")


def copies(report: Mapping[str, Any], thumbnails: Thumbnails) -> str:
    """Pictures that are there under several names."""
    shown = report["duplicates"]
    rows = [
        Row(
            (
                _picture(thumbnails, each["sources"][0]),
                Cell(f"{each['items']:,}", each["items"]),
                Cell(_names(each), each["sources"][0]),
            ),
            "pictured",
        )
        for each in shown
    ]
    if not rows:
        return ""
    repeats, pictures = report["repeats"], len(shown)
    told = (
        f"{count(repeats, 'item')} of the run {'is a copy' if repeats == 1 else 'are copies'} of"
        f" another one; {'it shares' if repeats == 1 else 'they share'} its entry."
    )
    columns = [Column("picture", "pic"), Column("items", "num"), Column("sources", "text")]
    more = report.get("duplicates_omitted", 0)
    return f'<p class="told">{told}</p>' + table(
        f"Pictures found more than once: {pictures:,}",
        columns,
        rows,
        more=f"and {more:,} more copies of other pictures" if more else "",
        css="cards",
    )


def _names(each: Mapping[str, Any]) -> str:
    names, more = each["sources"], each["items"] - len(each["sources"])
    return "<br>".join(map(source, names)) + (f"<br>and {more:,} more" if more else "")


def slowest(report: Mapping[str, Any]) -> str:
    """The items that took the most work."""
    shown = [stage for stage in STAGES[1:] if report["seconds"][stage]]
    rows = [
        Row(
            (
                Cell(source(each["source"]), each["source"]),
                Cell(brief(each["total"]), each["total"]),
                *(_spent(each["seconds"].get(stage)) for stage in shown),
            )
        )
        for each in report["slowest"]
    ]
    columns = [Column("source", "text"), *(Column(name, "num") for name in ("all", *shown))]
    return table("Items that took the most work", columns, rows)


def _spent(seconds: float | None) -> Cell:
    return Cell("&ndash;", "") if seconds is None else Cell(brief(seconds), seconds)
