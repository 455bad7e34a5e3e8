"""`vcache merge`: the entries of several stores into one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vcache_cli.cli.documents import envelope
from vcache_cli.cli.options import (
    JsonOption,
    MaxSizeOption,
    MinFreeOption,
    QuietOption,
    StoreOption,
    settings_for,
)
from vcache_cli.cli.output import Output
from vcache_cli.cli.transfer_views import merge_problem, merge_view
from vcache_cli.items import display_path

__all__ = ["merge"]


def merge(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="STORE...", show_default=False, help="Stores of one target."),
    ],
    *,
    store: StoreOption = None,
    max_size: MaxSizeOption = None,
    min_free: MinFreeOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Copy the entries of stores, such as those of `warm --shard`, into one.

    Each is checked whole. Where the store has a good entry of a key already, that one stays.
    The others are only read.
    """
    from vcache_cli.assemble import WarmOptions, merge_stores

    settings = settings_for(store=store, max_size=max_size, min_free=min_free)
    limits = WarmOptions(max_size_bytes=settings.max_size, min_free_bytes=settings.min_free)
    output = Output(as_json, quiet)
    paths = [Path(each) for each in sources]
    result = merge_stores(paths, store=settings.store, options=limits)
    if result.note:
        output.say(result.note)
    fields = {"sources": [display_path(str(each.absolute())) for each in paths]}
    document = envelope("merge", {**fields, **result.as_json()}, store=settings.store)
    return output.finish(document, merge_view, problem=merge_problem(result))
