"""`vcache push`: the entries of a store to a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from vcache_cli.cli import completion
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
    QuietOption,
    StoreOption,
    StoreTargetOption,
    option,
    settings_for,
)
from vcache_cli.cli.output import Output
from vcache_cli.cli.remote_options import JobsOption, UrlArgument, check_lasting, jobs_of
from vcache_cli.cli.remote_views import push_problem, push_view
from vcache_cli.cli.scopes import chosen_keys
from vcache_cli.cli.ticker import ticking

if TYPE_CHECKING:
    from vcache_cli.remote import Chosen
    from vcache_cli.store import StoreRoot

__all__ = ["push"]


def push(
    url: UrlArgument,
    *,
    store: StoreOption = None,
    target: StoreTargetOption = None,
    run: Annotated[
        str | None,
        option(
            "--run",
            metavar="ID|last",
            about="Only entries that this warm run met.",
            complete=completion.runs,
        ),
    ] = None,
    model: EntryModelOption = None,
    stage: EntryStageOption = None,
    key: EntryKeyOption = None,
    filters: EntryFilterOption = None,
    corpus: EntrySourceOption = None,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Copy the entries of a store to a bucket: what is missing there.

    Prints the run, under which `vcache pull URL --run RUN` gives these entries to another machine.
    Run it again after an interruption, and it goes on. Credentials come from the environment.
    """
    from vcache_cli.assemble import open_root
    from vcache_cli.remote import open_remote, push_store

    settings = settings_for(store=store)
    most = jobs_of(jobs)
    remote = open_remote(url)
    check_lasting(remote.place)
    root = open_root(settings.store, target=target)
    wanted = chosen_keys(root, model=model, stage=stage, keys=key, filters=filters, corpus=corpus)
    chosen = _chosen(root, wanted, run)
    output = Output(as_json, quiet)
    with ticking(output, remote.bucket.moved), Interrupts(at_once) as interrupts:
        result = push_store(root, remote, chosen, jobs=most)
    if interrupts.error:  # it came where nothing can be raised
        raise interrupts.error
    if not result.counts.total():
        output.say("no entry was pushed")
    fields = {"url": remote.place.url, **result.as_json()}
    document = envelope("push", fields, store=root.path)
    problem = push_problem(result.remarks, result.error)
    return output.finish(document, push_view, bare=[result.run], problem=problem)


def _chosen(root: StoreRoot, wanted: frozenset[str] | None, run: str | None) -> Chosen:
    """The wanted entries, those of a warm run only where one is named."""
    from vcache_cli.remote import Chosen
    from vcache_cli.store.query import list_entries
    from vcache_cli.store.runs import read_run

    rows = {row.key: row for row in list_entries(root).entries}
    if run is None:
        return Chosen(rows, wanted)
    found = read_run(root, run)
    met = frozenset(key for line in found.outcomes() if type(key := line.get("key")) is str)
    return Chosen(rows, met if wanted is None else wanted & met, found.id)
