"""Options that say where a run works: here, or on the machines of a cluster."""

from __future__ import annotations

from typing import Annotated

from vcache_cli.cli.options import option

__all__ = ["EncoderResourcesOption", "EngineOption", "RayAddressOption"]

EngineOption = Annotated[
    str | None,
    option(
        "--engine",
        metavar="local|ray",
        about="Where the work is done: on this machine, or on a Ray cluster whose nodes share the"
        " store and the sources.",
        default="local",
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
