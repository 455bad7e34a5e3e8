"""Options that say where a run works: here, or on the machines of a cluster."""

from __future__ import annotations

from typing import Annotated

from vcache_cli.cli.options import option, parsed
from vcache_cli.errors import UsageError

__all__ = [
    "EncoderResourcesOption",
    "EngineOption",
    "NodesOption",
    "RayAddressOption",
    "nodes_asked",
]

EngineOption = Annotated[
    str | None,
    option(
        "--engine",
        metavar="local|ray",
        about="Where the work is done: on this machine, or on a Ray cluster whose nodes share the"
        " sources, and the store unless it is in a bucket.",
        default="local",
    ),
]
NodesOption = Annotated[
    str | None,
    option(
        "--nodes",
        metavar="N",
        about="With --dry-run: what it would cost on a Ray cluster of N machines like this one.",
    ),
]
RayAddressOption = Annotated[
    str | None,
    option(
        "--ray-address",
        metavar="HOST:PORT",
        about="Ray cluster: its address, or auto for the one that runs on this machine.",
        default="auto",
    ),
]
EncoderResourcesOption = Annotated[
    str | None,
    option(
        "--encoder-resources",
        metavar="CPU=N[,GPU=N]",
        about="Ray cluster: what each encoder takes.",
        default="a GPU with its share of the CPUs, or all CPUs of a node",
    ),
]


def nodes_asked(text: str | None, *, dry_run: bool) -> int | None:
    """How many machines are thought of; None where the user named none.

    Raises:
        UsageError: no number, or this is no dry run.
    """
    from vcache_cli.config import parse_count

    nodes: int | None = parsed(
        "--nodes", text, expected="a number of at least 1", parse=parse_count
    )
    if nodes is not None and not dry_run:
        raise UsageError(
            "`--nodes` only foretells", hint="add --dry-run; `--engine ray` works on a cluster"
        )
    return nodes
