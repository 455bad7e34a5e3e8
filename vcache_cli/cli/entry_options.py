"""The options that choose entries of a store."""

from __future__ import annotations

from typing import Annotated

from vcache_cli.cli import completion
from vcache_cli.cli.options import option

__all__ = [
    "EntryFilterOption",
    "EntryKeyOption",
    "EntryModelOption",
    "EntrySourceOption",
    "EntryStageOption",
]

EntryModelOption = Annotated[
    str | None,
    option("--model", "-m", metavar="NAME", about="Only this model's, as `vcache ls` names it."),
]
EntryStageOption = Annotated[
    str | None,
    option("--stage", metavar="features|pixels", about="Only entries of this stage."),
]
EntryKeyOption = Annotated[
    list[str] | None,
    option(
        "--key", metavar="KEY", about="This entry; may be given again.", complete=completion.keys
    ),
]
EntryFilterOption = Annotated[
    list[str] | None,
    option("--filter", metavar="CONDITION", about="As in `ls`; all must hold."),
]
EntrySourceOption = Annotated[
    list[str] | None,
    option(
        "--for",
        metavar="SOURCE",
        about="Only entries of these files and folders; may be given again.",
    ),
]
