"""`vcache pull`: entries out of a bucket into a store."""

from __future__ import annotations

from typing import Annotated

from vcache_cli.cli.documents import envelope
from vcache_cli.cli.entry_options import (
    EntryFilterOption,
    EntryKeyOption,
    EntryModelOption,
    EntrySourceOption,
    EntryStageOption,
)
from vcache_cli.cli.interrupts import Interrupts, at_once
from vcache_cli.cli.options import (
    JsonOption,
    MaxSizeOption,
    MinFreeOption,
    QuietOption,
    StoreOption,
    option,
    settings_for,
)
from vcache_cli.cli.output import Output
from vcache_cli.cli.remote_options import JobsOption, UrlArgument, jobs_of
from vcache_cli.cli.remote_stores import remote_keys
from vcache_cli.cli.remote_views import pull_problem, pull_view
from vcache_cli.cli.ticker import ticking
from vcache_cli.cli.transfer_views import INTEGRITY_ONLY

__all__ = ["pull"]


def pull(
    url: UrlArgument,
    *,
    store: StoreOption = None,
    run: Annotated[
        str | None,
        option("--run", metavar="ID|last", about="Only entries of this push, or this warm run."),
    ] = None,
    model: EntryModelOption = None,
    stage: EntryStageOption = None,
    key: EntryKeyOption = None,
    filters: EntryFilterOption = None,
    corpus: EntrySourceOption = None,
    max_size: MaxSizeOption = None,
    min_free: MinFreeOption = None,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Copy entries out of a bucket into a store: what is missing here.

    Each is compared with its digest and checked whole before it is stored; a damaged one is named.
    Run it again after an interruption, and it goes on. Whether an entry is what a model would
    compute is not checked: pull from those you would take a store from.
    """
    from vcache_cli.assemble import WarmOptions, open_remote_store, pull_entries

    settings = settings_for(store=store, max_size=max_size, min_free=min_free)
    most = jobs_of(jobs)
    limits = WarmOptions(max_size_bytes=settings.max_size, min_free_bytes=settings.min_free)
    view, output = open_remote_store(url), Output(as_json, quiet)
    keys = remote_keys(
        view, run=run, model=model, stage=stage, keys=key, filters=filters, corpus=corpus
    )
    if not keys:
        output.say(f"no entry fits, of {len(view.entries):,}")
    with ticking(output, view.remote.bucket.moved), Interrupts(at_once) as interrupts:
        result = pull_entries(view, keys, store=settings.store, options=limits, jobs=most)
    if interrupts.error:  # it came where nothing can be raised
        raise interrupts.error
    for told in (INTEGRITY_ONLY if result.written_bytes else "", result.note):
        if told:
            output.say(told)
    fields = {"url": view.url, "checked": "integrity", **result.as_json()}
    document = envelope("pull", fields, store=settings.store)
    return output.finish(document, pull_view, problem=pull_problem(result.remarks, result.error))
