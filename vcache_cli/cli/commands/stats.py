"""`vcache stats`: what a store holds, in numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from vcache_cli.cli.blocks import Block, Facts, Lines, Table
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.limits import limits_of
from vcache_cli.cli.options import (
    JsonOption,
    QuietOption,
    StoreArgument,
    StoreOption,
    StoreTargetOption,
    settings_for,
    the_store,
)
from vcache_cli.cli.output import Output
from vcache_cli.cli.remote_options import url_of
from vcache_cli.cli.remote_stores import remote_sums
from vcache_cli.cli.text import age, count
from vcache_cli.quantity import format_size

__all__ = ["stats"]

_DAY = 86_400
_RECENCY = {"used": "last use", "written": "last written"}


def stats(
    where: StoreArgument = None,
    *,
    store: StoreOption = None,
    target: StoreTargetOption = None,
    scan: Annotated[
        bool, typer.Option("--scan", help="Walk the directories, and compare with the index.")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Show what a store holds, by model, stage, kind and age; also of one in a bucket."""
    from vcache_cli.assemble import open_root
    from vcache_cli.store.stats import store_stats

    if url := url_of(where, store):
        sums = remote_sums(url, scan=scan)
        document = envelope("stats", sums, store=sums["store"])
        return Output(as_json, quiet).finish(document, _view, bare=[str(sums["entries"])])
    settings = settings_for(store=the_store(where, store))
    root = open_root(settings.store, target=target)
    found = store_stats(root, scan=scan, limits=limits_of(settings))
    document = envelope("stats", found.as_json(), store=settings.store)
    return Output(as_json, quiet).finish(document, _view, bare=[str(found.entries)])


def _view(document: Mapping[str, Any]) -> Sequence[Block]:
    models = tuple(
        (
            group.get("model", "-"),
            group.get("stage", "-"),
            f"{group['entries']:,}",
            format_size(group["bytes"]),
            age(group["newest_use"]),
        )
        for group in document["by_model"]
    )
    return (
        Facts(tuple(_facts(document))),
        Table(
            ("model", "stage", ">entries", ">size", _RECENCY[document.get("recency", "used")]),
            models,
            squeezed=("model",),
        ),
        Table(("kind", ">entries", ">size"), _kinds(document)),
        Table(("older than", ">entries", ">size"), _ages(document)),
        Lines(tuple(_troubles(document))),
    )


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    sizes, fs = document["bytes"], document["fs"]
    yield "store", document["store"]
    yield "target", document["target"]
    yield "entries", f"{document['entries']:,}"
    yield "size", f"{format_size(sizes['logical'])} ({format_size(sizes['allocated'])} on disk)"
    for name in ("quarantine", "tmp", "foreign"):
        if sizes.get(name):
            yield name, format_size(sizes[name])
    yield from _server(document.get("server", {}))
    if empty := document.get("empty_directories"):
        yield "empty directories", f"{empty:,}"
    for name, limit in document["limits"].items():
        shown = format_size(limit["value"]) if "value" in limit else "none"
        yield name.replace("_", " "), f"{shown} ({limit['origin']})"
    free = f", {format_size(fs['free'])} free" if "free" in fs else ""
    yield (
        "file system",
        fs.get("type", "unknown") + free + (", network" if fs.get("network") else ""),
    )
    held = f", {format_size(sizes['index'])}" if sizes.get("index") else ""
    yield "index", document["index"]["state"] + held
    if run := document.get("last_run"):
        yield "last run", _run(run)


def _server(server: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a server makes of its own store after its next start."""
    if not server:
        return
    if "capacity_bytes" in server:
        used, limit = server["indexed"]["bytes"], server["capacity_bytes"]
        note = f" ({server['capacity_note']})" if "capacity_note" in server else ""
        yield "server's limit", f"{format_size(used)} of {format_size(limit)} used{note}"
    if (never := server["never_indexed"])["entries"]:
        yield "never indexed", f"{_sums(never, 'file', 'files')}: never found, never evicted"
    if first := server["evicts_first"]:
        shown = (f"{each['path'][:18]}... ({format_size(each['bytes'])})" for each in first[:3])
        yield "evicted first", f"{', '.join(shown)}: after its next start"
    if (going := server["evicts_next"])["entries"]:
        told = "by its first write after a start"
        yield "evicted next", f"{_sums(going, 'entry', 'entries')}: {told}"
    if found := server["findings"]:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in found.items())
        yield "findings", f"{kinds}; `vcache verify` names the files"


def _sums(sums: Mapping[str, int], noun: str, plural: str) -> str:
    return f"{count(sums['entries'], noun, plural)}, {format_size(sums['bytes'])}"


def _run(run: Mapping[str, Any]) -> str:
    state = "running" if run.get("live") else "ended" if run.get("complete") else "interrupted"
    items = run.get("items", {})
    counts = ", ".join(f"{number:,} {name}" for name, number in items.items() if number)
    return f"{age(run['started'])}, {state}" + (f": {counts}" if counts else "")


def _kinds(document: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (group["kind"], f"{group['entries']:,}", format_size(group["bytes"]))
        for group in document["by_kind"]
    )


def _ages(document: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            f"{group['older_than_seconds'] // _DAY}d",
            f"{group['entries']:,}",
            format_size(group["bytes"]),
        )
        for group in document["by_age"]
        if group["older_than_seconds"] and group["entries"]
    )


def _troubles(document: Mapping[str, Any]) -> Iterator[str]:
    if drift := document["index"].get("drift_entries"):
        yield f"the index differed in {count(drift, 'entry', 'entries')}; it is corrected now"
    for path in document.get("foreign_files", ())[:20]:
        yield f"foreign file: {path}"
    for each in document.get("unreadable", ())[:20]:
        yield f"cannot be listed: {each['path']}: {each['message']}"
