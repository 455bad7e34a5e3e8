"""The options and arguments of the commands: each is written, and explained, once."""

from __future__ import annotations

from typing import Annotated

import typer

from vcache_cli.cli import completion
from vcache_cli.cli.asked import parsed, settings_for, the_store
from vcache_cli.cli.declare import option

__all__ = [
    "BackendOption",
    "BatchSizeOption",
    "ComputeDtypeOption",
    "DownloadOption",
    "DryRunOption",
    "DtypeOption",
    "EventsOption",
    "ExcludeOption",
    "JsonOption",
    "LimitOption",
    "MaxErrorsOption",
    "MaxSizeOption",
    "MinFreeOption",
    "ModelOption",
    "NullOption",
    "OnErrorOption",
    "OnFullOption",
    "PresetOption",
    "ProfileOption",
    "QuietOption",
    "RetryErrorsOption",
    "ShardOption",
    "Sources",
    "StageOption",
    "StoreArgument",
    "StoreOption",
    "StoreTargetOption",
    "TargetOption",
    "TrustRemoteCodeOption",
    "VerboseOption",
    "WorkersOption",
    "YesOption",
    "option",
    "parsed",
    "settings_for",
    "the_store",
]


Sources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SOURCE...",
        show_default=False,
        help="Files, folders, globs, archives (.tar, .zip), tables (.parquet), request logs"
        " (.jsonl), @LIST (a file of names), or - for names from stdin. Also objects and folders"
        " of buckets, such as s3://BUCKET/photos.",
    ),
]
StoreArgument = Annotated[
    str | None,
    typer.Argument(metavar="STORE", show_default=False, help="The store, instead of --store."),
]
StoreOption = Annotated[
    str | None,
    option(
        "--store",
        "-s",
        metavar="DIR",
        about="The store; else VCACHE_STORE, a settings file, or the platform's cache folder.",
    ),
]
ModelOption = Annotated[
    str | None,
    option(
        "--model",
        "-m",
        metavar="MODEL",
        complete=completion.models,
        about="A model folder, or the name of one in the local Hugging Face cache; else"
        " VCACHE_MODEL or a settings file.",
    ),
]
TargetOption = Annotated[
    str | None,
    option(
        "--target",
        metavar="NAME",
        complete=completion.plugins("targets"),
        about="Server that the entries are for; `vcache plugins` lists them.",
        default="native",
    ),
]
StoreTargetOption = Annotated[
    str | None,
    option(
        "--target",
        metavar="NAME",
        complete=completion.plugins("targets"),
        about="Server whose store it is; else the store says so, or its files tell.",
    ),
]
StageOption = Annotated[
    str | None,
    option(
        "--stage",
        metavar="features|pixels",
        about="What is kept: features, as the model's vision part computes them, or the pixels"
        " that it takes.",
        default="features",
    ),
]
PresetOption = Annotated[
    str | None,
    option(
        "--preset",
        metavar="NAME",
        complete=completion.presets,
        about="Settings that a settings file has under `[preset.NAME]`; else VCACHE_PRESET.",
    ),
]
ProfileOption = Annotated[
    str | None,
    option(
        "--profile",
        metavar="NAME",
        complete=completion.plugins("profiles"),
        about="Server release whose preprocessing is followed.",
        default="transformers-pil-5",
    ),
]
BackendOption = Annotated[
    str | None,
    option(
        "--backend",
        metavar="NAME",
        complete=completion.plugins("backends", "mlx-vlm"),
        about="What encodes: numpy, mlx, torch, or mlx-vlm (its own models).",
        default="the fastest here",
    ),
]
ComputeDtypeOption = Annotated[
    str | None,
    option(
        "--compute-dtype",
        metavar="DTYPE",
        about="What the encoder computes in: float32, bfloat16, float16, or auto, which is what"
        " suits the backend.",
        default="auto",
    ),
]
DtypeOption = Annotated[
    str | None,
    option(
        "--dtype",
        metavar="DTYPE",
        about="Of stored features: bfloat16, float16 or float32.",
        default="bfloat16",
    ),
]
WorkersOption = Annotated[
    str | None,
    option(
        "--workers",
        metavar="N",
        about="Pictures and videos read and decoded at once.",
        default="one per core",
    ),
]
BatchSizeOption = Annotated[
    str | None,
    option(
        "--batch-size",
        metavar="N",
        about="Pictures in one call of the encoder.",
        default="chosen by the encoder",
    ),
]
NullOption = Annotated[
    bool, option("--null", "-0", about="Names in lists end with a NUL byte, not a newline.")
]
LimitOption = Annotated[
    str | None, option("--limit", metavar="N", about="Stop after the first N pictures and videos.")
]
JsonOption = Annotated[bool, option("--json", about="Print one JSON document instead of text.")]
QuietOption = Annotated[
    bool, option("--quiet", "-q", about="No progress and no talk; only what a script needs.")
]
VerboseOption = Annotated[bool, option("--verbose", "-v", about="Say more on stderr.")]
YesOption = Annotated[bool, option("--yes", about="Delete without asking.")]
DownloadOption = Annotated[
    bool,
    option("--download", about="Fetch what is needed of a model of the Hugging Face Hub."),
]
DryRunOption = Annotated[bool, option("--dry-run", about="Show the plan, and change nothing.")]


OnErrorOption = Annotated[
    str | None,
    option(
        "--on-error",
        metavar="skip|fail",
        about="Whether a picture that fails is passed over, or ends the run.",
        default="skip",
    ),
]
MaxErrorsOption = Annotated[
    str | None,
    option(
        "--max-errors",
        metavar="N|P%",
        about="Stop when more pictures and videos than this have failed.",
        default="none",
    ),
]
RetryErrorsOption = Annotated[
    bool,
    option(
        "--retry-errors", about="Try again what failed in an earlier run and did not change since."
    ),
]
TrustRemoteCodeOption = Annotated[
    bool,
    option("--trust-remote-code", about="Run code that the checkpoint brings along, if it does."),
]
ShardOption = Annotated[
    str | None, option("--shard", metavar="I/N", about="Only the I-th of N parts of the sources.")
]
MaxSizeOption = Annotated[
    str | None,
    option(
        "--max-size",
        metavar="SIZE",
        about="Most that the store may hold, such as 20GiB.",
        default="none",
    ),
]
MinFreeOption = Annotated[
    str | None,
    option(
        "--min-free", metavar="SIZE", about="Space to leave free on the disk.", default="256MiB"
    ),
]
OnFullOption = Annotated[
    str | None,
    option(
        "--on-full",
        metavar="stop|prune",
        about="Stop when the store is full, or prune it and go on.",
        default="stop",
    ),
]
ExcludeOption = Annotated[
    list[str] | None,
    option("--exclude", metavar="GLOB", about="Leave out what matches; may be given again."),
]
EventsOption = Annotated[
    str | None,
    option(
        "--events",
        metavar="FILE",
        about="One JSON line per picture or video to FILE, or - for stderr.",
    ),
]
