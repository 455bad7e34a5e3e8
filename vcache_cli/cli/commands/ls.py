"""`vcache ls`: the entries of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from vcache_cli.cli.blocks import Block, Lines, Table
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.options import (
    JsonOption,
    QuietOption,
    StoreArgument,
    StoreOption,
    StoreTargetOption,
    option,
    parsed,
    settings_for,
    the_store,
)
from vcache_cli.cli.output import Output
from vcache_cli.cli.remote_options import url_of
from vcache_cli.cli.remote_stores import remote_listing
from vcache_cli.cli.text import age, count
from vcache_cli.quantity import format_size

__all__ = ["ls"]


def ls(
    where: StoreArgument = None,
    *,
    store: StoreOption = None,
    target: StoreTargetOption = None,
    filters: Annotated[
        list[str] | None,
        option(
            "--filter",
            metavar="CONDITION",
            about="Such as 'size>1MiB', 'used>7d' or 'source=*.png'; all must hold. Names: age,"
            " key, kind, model, size, source, stage, tokens, used.",
        ),
    ] = None,
    sort: Annotated[
        str | None,
        option(
            "--sort",
            metavar="FIELD[:desc]",
            about="By created, key, model, size, source, tokens or used.",
            default="key",
        ),
    ] = None,
    limit: Annotated[
        str | None,
        option("--limit", metavar="N", about="Show the first N entries.", default="all"),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """List the entries of a store, also of one in a bucket."""
    from vcache_cli.assemble import open_root
    from vcache_cli.config import parse_count
    from vcache_cli.store.query import list_entries, parse_filter, parse_sort

    output = Output(as_json, quiet)
    first = parsed("--limit", limit, expected="a number of at least 1", parse=parse_count)
    if url := url_of(where, store):
        listing = remote_listing(url, filters=filters, sort=sort, limit=first)
        keys = [entry["key"] for entry in listing["entries"]]
        return output.finish(envelope("ls", listing, store=listing["store"]), _view, bare=keys)
    settings = settings_for(store=the_store(where, store))
    found = list_entries(
        open_root(settings.store, target=target),
        filters=[parse_filter(text) for text in filters or ()],
        sort=parse_sort(sort) if sort else None,
        limit=first,
    )
    if not found.entries:
        output.say(f"no entry matches, of {found.total:,}" if found.total else "the store is empty")
    document = envelope("ls", found.as_json(), store=settings.store)
    return output.finish(document, _view, bare=[row.key for row in found.entries])


def _view(document: Mapping[str, Any]) -> Sequence[Block]:
    rows = tuple(
        (
            entry["key"],
            entry.get("stage", entry.get("finding", "-")),
            entry.get("model", "-"),
            format_size(entry["bytes"]),
            str(entry.get("num_tokens", "-")),
            age(entry["used"]),
            entry.get("source", "-"),
        )
        for entry in document["entries"]
    )
    columns = ("key", "stage", "model", ">size", ">tokens", "used", "source")
    more = (f"and {count(document['more'], 'more entry', 'more entries')}",)
    table = Table(
        columns,
        rows,
        heads=(("key", 16),),
        squeezed=("model",),
        spare=("used", "tokens", "stage", "model"),
        last_width=24,
        last_is_path=True,
    )
    return (table, Lines(more if document["more"] else ()))
