"""`vcache serve-mlx-vlm`: mlx-vlm's own server, with the store behind its feature cache."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from vcache_cli.cli import options as opt
from vcache_cli.cli.errors import Terminated
from vcache_cli.cli.output import Output
from vcache_cli.cli.text import count

if TYPE_CHECKING:
    from vcache_cli.integrations.mlx_vlm import CacheCounts

__all__ = ["serve_mlx_vlm"]

_PATHS = ("/", "./", "../", "~/")


def serve_mlx_vlm(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- ARGS...",
            show_default=False,
            help="What follows `--` goes to the server as it is.",
        ),
    ] = None,
    *,
    model: opt.ModelOption = None,
    store: opt.StoreOption = None,
    quiet: opt.QuietOption = False,
) -> int:
    """Start mlx-vlm's server with a store behind its feature cache.

    What `vcache warm --target mlx-vlm` stored is found at the first request, for every model that
    takes cached features, and what the server computes is stored, unless the store cannot be
    written. The server listens on this machine alone unless `--host` follows `--`. Where it fails,
    the exit code is the server's own.
    """
    from vcache_cli.checkpoint import open_checkpoint
    from vcache_cli.integrations.mlx_vlm_server import serve

    settings = opt.settings_for(store=store, model=model)
    if settings.model and settings.model.startswith(_PATHS):  # names are the server's to find
        open_checkpoint(settings.model)
    output = Output(json=False, quiet=quiet)
    preload = ["--model", settings.model] if settings.model else []

    def tell(counts: CacheCounts) -> None:
        hits = counts.memory_hits + counts.store_hits
        output.say(
            f"{count(hits + counts.misses, 'lookup')}: {counts.store_hits:,} from the store, "
            f"{counts.memory_hits:,} from memory, {counts.misses:,} computed, "
            f"hit rate {counts.hit_rate:.0%}"
        )
        if counts.failed_puts:
            output.complain(f"{counts.failed_puts:,} of what was computed could not be stored")

    code = 0
    try:
        given = [*preload, *(arguments or [])]
        serve(settings.store, given, noted=output.complain, told=tell)
    except Terminated:
        code = 143
    except KeyboardInterrupt:
        code = 130
    except SystemExit as leaving:  # the port is taken, the model cannot be loaded, or `--help`
        code = leaving.code if isinstance(leaving.code, int) else 1
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End now, everything written: MLX aborts a process that has served, its threads unfinished."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
