"""The sections of the page about a store, and about the run as a whole. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.quantity import format_size
from vcache_cli.report.markup import Cell, Column, Row, escape, facts, table
from vcache_cli.report.words import moment
from vcache_cli.wording import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Final

__all__ = ["details", "holds"]

_DAY: Final = 86_400
_RECENCY: Final = {"used": "last use", "written": "last written"}
_NAMES: Final = {
    "id": "run",
    "file": "run file",
    "cwd": "started in",
    "model": "model",
    "target": "target",
    "stage": "stage",
    "profile": "profile",
    "recipe": "recipe",
}


def holds(report: Mapping[str, Any]) -> str:
    """Entries and bytes, by model, kind and age."""
    found = report.get("holds")
    if not found:
        return ""
    sizes = found["bytes"]
    told = (
        f"{count(found['entries'], 'entry', 'entries')}, {format_size(sizes['logical'])}"
        f" ({format_size(sizes['allocated'])} on disk), {_limits(found)}."
    )
    held = report.get("held", {})
    if gone := held.get("gone"):
        verb = "is" if gone == 1 else "are"
        told += f" {count(gone, 'entry', 'entries')} of the run {verb} not there any more."
    pair = f'<div class="split">{_kinds(found)}{_ages(found)}</div>'
    return f'<p class="told">{escape(told)}</p>{_models(found)}{pair}'


def _limits(found: Mapping[str, Any]) -> str:
    limit = found["limits"].get("max_size", {}).get("value")
    bound = f"of at most {format_size(limit)}" if limit is not None else "without a limit"
    free = found["fs"].get("free")
    return bound + (f", {format_size(free)} free on the disk" if free is not None else "")


def _models(found: Mapping[str, Any]) -> str:
    rows = [
        Row(
            (
                Cell(escape(each.get("model", "unknown"))),
                Cell(escape(each.get("stage", "unknown"))),
                Cell(f"{each['entries']:,}", each["entries"]),
                Cell(format_size(each["bytes"]), each["bytes"]),
                Cell(moment(escape(each["oldest"])), each["oldest"]),
                Cell(moment(escape(each["newest_use"])), each["newest_use"]),
            )
        )
        for each in found["by_model"][:1000]
    ]
    used = _RECENCY.get(found["recency"], "last use")
    columns = [
        *map(Column, ("model", "stage")),
        Column("entries", "num"),
        Column("size", "num"),
        *map(Column, ("oldest", used)),
    ]
    return table("By model", columns, rows, css="titled")


def _kinds(found: Mapping[str, Any]) -> str:
    rows = [
        Row((Cell(escape(each["kind"])), *_sums(each, found))) for each in found["by_kind"][:1000]
    ]
    return table("By kind", [Column("kind"), *_SUMS], rows, css="titled")


def _ages(found: Mapping[str, Any]) -> str:
    rows = [
        Row(
            (
                Cell(_older(each["older_than_seconds"]), each["older_than_seconds"]),
                *_sums(each, found),
            )
        )
        for each in found["by_age"]
        if each["entries"]
    ]
    return table("By age", [Column("older than"), *_SUMS], rows, css="titled")


_SUMS: Final = (Column("entries", "num"), Column("size", "num"), Column("share", "num"))


def _sums(each: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[Cell, ...]:
    share = each["bytes"] / found["bytes"]["logical"] if found["bytes"]["logical"] else 0.0
    return (
        Cell(f"{each['entries']:,}", each["entries"]),
        Cell(format_size(each["bytes"]), each["bytes"]),
        Cell(f"{share * 100:.0f}%", share),
    )


def _older(seconds: int) -> str:
    return count(seconds // _DAY, "day") if seconds else "any age"


def details(report: Mapping[str, Any]) -> str:
    """What the run was, to the letter."""
    return facts([(name, f"<code>{escape(value)}</code>") for name, value in _pairs(report)])


def _pairs(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    run = report["run"]
    yield from ((shown, run[name]) for name, shown in _NAMES.items() if name in run)
    encoder = run.get("encoder", {})
    if made := ", ".join(
        encoder[name] for name in ("backend", "device", "dtype") if name in encoder
    ):
        yield "encoder", made
    if "fingerprint" in encoder:
        yield "fingerprint", encoder["fingerprint"]
    if "store" in report:
        yield "store", report["store"]
    if held := report.get("held"):
        sizes = f"{format_size(held['bytes'])}, the largest {format_size(held['largest'])}"
        yield "entries of the run", f"{held['entries']:,}, {sizes}"
    if kinds := report["kinds"]:
        yield "kinds", _counted(kinds)
    if skips := report["skips"]:
        yield "skipped", _counted(skips)
    if checked := report.get("verified"):
        yield "checked", f"{checked['checked']:,} entries, {checked['damaged']:,} damaged"


def _counted(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {kind.replace('_', ' ')}" for kind, number in numbers.items())
