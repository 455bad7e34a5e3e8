"""`vcache schema`: the JSON Schemas of what `--json` prints."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from vcache_cli.cli import completion
from vcache_cli.cli.documents import schema as schema_of
from vcache_cli.cli.documents import schema_names

__all__ = ["schema"]


def schema(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            show_default=False,
            help="Document, such as `warm`.",
            autocompletion=completion.schemas,
        ),
    ] = None,
) -> int:
    """Print the JSON Schema of a document, or all names."""
    text = "\n".join(schema_names()) if name is None else json.dumps(schema_of(name), indent=2)
    sys.stdout.write(text + "\n")
    return 0
