"""`vcache import`: an archive's entries into a store."""

from __future__ import annotations

from typing import Annotated

import typer

from vcache_cli.cli.archives import archive_source, check_signature
from vcache_cli.cli.documents import envelope
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
from vcache_cli.cli.transfer_views import INTEGRITY_ONLY, import_problem, import_view
from vcache_cli.items import display_path

__all__ = ["import_"]


def import_(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", show_default=False, help="The archive; - is stdin.")
    ],
    *,
    store: StoreOption = None,
    max_size: MaxSizeOption = None,
    min_free: MinFreeOption = None,
    signed_by: Annotated[
        str | None,
        option(
            "--signed-by",
            metavar="SIGNERS",
            about="Only with a signature in FILE.sig of one of these: a file as OpenSSH's"
            " allowed_signers; needs `ssh-keygen`.",
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Store the entries of an archive that `vcache export` wrote.

    Each is checked whole before anything of it is written, and what is there already is left
    alone: run it again after an interruption. The check finds damage. It cannot tell whether
    the features are those of the picture: take archives from those you would take a store from.
    """
    from vcache_cli.assemble import WarmOptions, import_archive

    settings = settings_for(store=store, max_size=max_size, min_free=min_free)
    limits = WarmOptions(max_size_bytes=settings.max_size, min_free_bytes=settings.min_free)
    output = Output(as_json, quiet)
    with archive_source(file) as source, Interrupts(at_once) as interrupts:
        if signed_by is not None:  # an empty variable is no wish to trust anyone
            output.say(f"signed by {check_signature(file, source, signed_by)}")
        result = import_archive(source, store=settings.store, options=limits)
    if interrupts.error:  # it came where nothing can be raised
        raise interrupts.error
    if result.written_bytes:
        output.say(INTEGRITY_ONLY)
    if result.note:
        output.say(result.note)
    fields = {"file": display_path(file), "checked": "integrity", **result.as_json()}
    document = envelope("import", fields, store=settings.store)
    return output.finish(document, import_view, problem=import_problem(result))
