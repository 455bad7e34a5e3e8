"""What people see of a report on a terminal. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.cli.blocks import Block, Facts, Lines, Table
from vcache_cli.cli.text import count, duration, percent
from vcache_cli.quantity import format_size
from vcache_cli.report.words import brief, changed, counts, headline, stage_shares, state, valued

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["report_view"]

_SHOWN = 10
"""Kinds of failures and warnings that people see."""


def report_view(document: Mapping[str, Any]) -> Sequence[Block]:
    """A report: what came of the run, where the time went, what failed, which gates hold."""
    return (
        Lines(tuple(filter(None, (headline(document), state(document))))),
        Facts(tuple(_facts(document))),
        Table(("stage", ">time", ">share"), _stages(document)),
        Table(("failed in", "kind", ">items"), _failures(document), "failures"),
        Table(("kind", ">items", "what"), _warnings(document), "warnings"),
        Table(("", ">before", ">now", ">change"), _changes(document), _since(document)),
        Table(("gate", ">found", "result"), _gates(document), "gates"),
    )


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    run, moved, seconds = document["run"], document["bytes"], document["seconds"]
    yield "run", run["id"]
    named = [run[name] for name in ("model", "stage", "target") if name in run]
    if named:
        yield "model", ", ".join(named)
    yield "items", f"{document['items']['total']:,} ({counts(document)})"
    if "coverage" in document:
        yield "ready", percent(document["coverage"])
        yield "hit rate", percent(document["hit_rate"])
    if "total" in seconds:
        rate = (
            f", {document['items_per_second']:,.1f} items/s" if document["items"]["total"] else ""
        )
        yield "time", duration(seconds["total"]) + rate
    yield "bytes", f"{format_size(moved['read'])} read, {format_size(moved['written'])} written"
    if tokens := document.get("tokens"):
        yield "tokens", f"{tokens['total']:,}"
    if document["repeats"]:
        yield "copies", f"{document['repeats']:,}"
    if holds := document.get("holds"):
        entries = count(holds["entries"], "entry", "entries")
        yield "store", f"{entries}, {format_size(holds['bytes']['logical'])}"
    if gone := document.get("held", {}).get("gone"):
        yield "gone", f"{count(gone, 'entry', 'entries')} of the run"


def _stages(document: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    if "bottleneck" not in document:
        return ()
    return tuple(
        (stage, brief(spent), f"{share * 100:.0f}%")
        for stage, spent, share in stage_shares(document)
    )


def _failures(document: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    shown = document["failure_kinds"][:_SHOWN]
    return tuple((each["stage"], each["kind"], f"{each['items']:,}") for each in shown)


def _warnings(document: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    shown = document["warning_kinds"][:_SHOWN]
    return tuple((each["kind"], f"{each['items']:,}", each["message"]) for each in shown)


def _since(document: Mapping[str, Any]) -> str:
    return f"since run {document['comparison']['run']}" if "comparison" in document else ""


def _changes(document: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    changes = document.get("comparison", {}).get("changes", ())
    return tuple(
        (
            each["name"],
            valued(each.get("before"), each["unit"]),
            valued(each.get("after"), each["unit"]),
            changed(each),
        )
        for each in changes
        if changed(each)
    )


def _gates(document: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (each["gate"], each["shown"], "met" if each["met"] else "not met")
        for each in document["gates"]
    )
