"""Options that say how pictures are taken: by which release's rules, and up to which size."""

from __future__ import annotations

from typing import Annotated

from vcache_cli.cli.options import option

__all__ = [
    "AllowHttpOption",
    "ForceProfileOption",
    "FpsOption",
    "IsolationOption",
    "ItemMemoryOption",
    "ItemTimeoutOption",
    "MaxFileSizeOption",
    "MaxFramesOption",
    "MaxPixelsOption",
    "MediaRootOption",
    "NumFramesOption",
]

AllowHttpOption = Annotated[
    bool,
    option(
        "--allow-http",
        about="Request logs: fetch the images that they name by http, from public addresses.",
    ),
]
MediaRootOption = Annotated[
    str | None,
    option(
        "--media-root",
        metavar="DIR",
        about="Request logs: the only folder, or URL, below which files that they name are read.",
        default="the folder of the log",
    ),
]

ForceProfileOption = Annotated[
    bool | None,
    option(
        "--force-profile",
        about="Follow the profile although the installed server package is of another version.",
    ),
]
FpsOption = Annotated[
    str | None,
    option(
        "--fps",
        metavar="N",
        about="Videos: frames taken of a second.",
        default="as the model's settings say",
    ),
]
NumFramesOption = Annotated[
    str | None,
    option("--num-frames", metavar="N", about="Videos: frames taken of each, in place of a rate."),
]
MaxFramesOption = Annotated[
    str | None,
    option(
        "--max-frames",
        metavar="N",
        about="Videos: the most frames taken of one.",
        default="as the model's settings say",
    ),
]
IsolationOption = Annotated[
    str | None,
    option(
        "--isolation",
        metavar="process|thread",
        about="Where pictures are decoded: in processes that may crash at the cost of one, or in"
        " threads, where you trust them.",
        default="process",
    ),
]
ItemTimeoutOption = Annotated[
    str | None,
    option(
        "--item-timeout",
        metavar="DURATION",
        about="Longest that a process may take for one item, or none.",
        default="5m",
    ),
]
ItemMemoryOption = Annotated[
    str | None,
    option(
        "--item-memory",
        metavar="SIZE",
        about="Most memory that a process may take for one item, or none.",
        default="4GiB",
    ),
]
MaxPixelsOption = Annotated[
    str | None,
    option(
        "--max-pixels",
        metavar="N",
        about="Largest picture that is decoded, width times height.",
        default="178956970",
    ),
]
MaxFileSizeOption = Annotated[
    str | None,
    option(
        "--max-file-size",
        metavar="SIZE",
        about="Largest picture file that is read.",
        default="256MiB",
    ),
]
