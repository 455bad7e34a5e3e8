"""Options of commands that matter to some servers only."""

from __future__ import annotations

from typing import Annotated

from vcache_cli.cli.options import option

__all__ = [
    "AllowLossyOption",
    "GroupsOption",
    "ManifestOption",
    "MaxSideOption",
    "ModelNameOption",
    "OmlxVersionOption",
]

GroupsOption = Annotated[
    str | None,
    option(
        "--groups",
        metavar="FILE",
        about="Requests of several pictures: a JSON list of paths per line, in their order,"
        " or a request log, for servers that look a request up as a whole.",
    ),
]
ManifestOption = Annotated[
    str | None,
    option(
        "--manifest",
        metavar="FILE",
        about="Write the key of each picture to FILE, a JSON line each: with target vllm-ec the"
        " `uuid` that a client gives.",
    ),
]
ModelNameOption = Annotated[
    str | None,
    option(
        "--model-name",
        metavar="TEXT",
        about="Target omlx: the path under which the server loads the model.",
        default="the model folder's absolute path",
    ),
]
MaxSideOption = Annotated[
    str | None,
    option(
        "--max-side",
        metavar="PIXELS",
        about="Target omlx: the server's limit of an image's longer side; 0: none.",
        default="2048",
    ),
]
OmlxVersionOption = Annotated[
    str | None,
    option("--omlx-version", metavar="VERSION", about="Target omlx: the server's version."),
]
AllowLossyOption = Annotated[
    bool,
    option(
        "--allow-lossy",
        about="Target omlx: warm models of whose features the server keeps a part only.",
    ),
]
