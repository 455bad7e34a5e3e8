"""`vcache export`: the entries of a store as one archive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vcache_cli.cli.archives import archive_sink, write_signature
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.entry_options import (
    EntryFilterOption,
    EntryKeyOption,
    EntryModelOption,
    EntrySourceOption,
    EntryStageOption,
)
from vcache_cli.cli.errors import Problem, worst
from vcache_cli.cli.next_steps import repair_command
from vcache_cli.cli.options import (
    JsonOption,
    QuietOption,
    StoreOption,
    StoreTargetOption,
    option,
    settings_for,
)
from vcache_cli.cli.output import Output
from vcache_cli.cli.scopes import chosen_keys
from vcache_cli.cli.text import count
from vcache_cli.cli.transfer_views import export_view
from vcache_cli.errors import UsageError
from vcache_cli.items import display_path

if TYPE_CHECKING:
    from pathlib import Path

    from vcache_cli.store.export import ExportResult

__all__ = ["export"]


def export(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE|-", show_default=False, help="The archive; - is stdout."),
    ],
    *,
    store: StoreOption = None,
    target: StoreTargetOption = None,
    model: EntryModelOption = None,
    stage: EntryStageOption = None,
    key: EntryKeyOption = None,
    filters: EntryFilterOption = None,
    corpus: EntrySourceOption = None,
    force: Annotated[bool, option("--force", about="Replace a file that is there.")] = False,
    sign: Annotated[
        str | None,
        option(
            "--sign",
            metavar="KEYFILE",
            about="Sign it with this SSH key, into FILE.sig; needs `ssh-keygen`.",
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Write the entries of a store to a tar, with the digest of each.

    The same entries give the same bytes. Damaged ones are left out and told, with exit 4.
    Another machine takes it with `vcache import FILE`, or, without a file between,
    `vcache export - | ssh HOST vcache import -`.
    """
    from vcache_cli.assemble import open_root
    from vcache_cli.store.export import export_store

    if sign is not None and file == "-":
        raise UsageError("`-` has no place for a signature", hint="name a file")
    settings = settings_for(store=store)
    root = open_root(settings.store, target=target)
    wanted = chosen_keys(root, model=model, stage=stage, keys=key, filters=filters, corpus=corpus)
    output = Output(as_json, quiet)
    with archive_sink(file, root.path, output, force=force) as (output, write):
        result = export_store(root, write, wanted=wanted)
    if sign is not None:  # an empty variable is no wish for no signature
        write_signature(file, result.manifest_sha256, sign)
    if not result.entries:
        output.say("no entry was exported")
    fields = {"file": display_path(file), **result.as_json()}
    document = envelope("export", fields, store=root.path)
    return output.finish(document, export_view, problem=_problem(result, root.path))


def _problem(result: ExportResult, store: Path) -> Problem | None:
    failed = result.remarks.failed
    if not failed:
        return None
    code = worst(3 if kind == "io_error" else 4 for kind in failed)
    first = result.remarks.failures[0]
    message = f"{count(failed.total(), 'entry was', 'entries were')} left out; "
    message += f"{first['key']}: {first['message']}"
    kind = "damage" if code == 4 else "unreadable"
    return Problem(code, kind, message, f"`{repair_command(store)}` moves damaged entries aside")
