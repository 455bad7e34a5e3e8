"""The options and arguments of the commands: each is written, and explained, once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vcache_cli.errors import UsageError

if TYPE_CHECKING:
    from vcache_cli.config import Settings

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


def option(name: str, *more: str, about: str, metavar: str | None = None, default: str = "") -> Any:  # noqa: ANN401  what typer takes for an option
    """An option with its help; `default` says what holds where it is not given."""
    told = f"{about} Default: {default}." if default else about
    return typer.Option(name, *more, help=told, metavar=metavar, show_default=False)


Sources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SOURCE...",
        show_default=False,
        help="Files, folders, globs, archives (.tar, .zip), tables (.parquet), request logs"
        " (.jsonl), @LIST (a file of names), or - for names from stdin.",
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
        about="A model folder, or the name of one in the local Hugging Face cache; else"
        " VCACHE_MODEL or a settings file.",
    ),
]
TargetOption = Annotated[
    str | None,
    option(
        "--target",
        metavar="NAME",
        about="Server whose keys and files are written.",
        default="native",
    ),
]
StoreTargetOption = Annotated[
    str | None,
    option(
        "--target",
        metavar="NAME",
        about="Server whose store it is; else the store says so, or its files tell.",
    ),
]
StageOption = Annotated[
    str | None,
    option(
        "--stage",
        metavar="features|pixels",
        about="Encoded features, or pixels ready to encode.",
        default="features",
    ),
]
PresetOption = Annotated[
    str | None,
    option(
        "--preset",
        metavar="NAME",
        about="Settings that a settings file has under `[preset.NAME]`; else VCACHE_PRESET.",
    ),
]
ProfileOption = Annotated[
    str | None,
    option(
        "--profile",
        metavar="NAME",
        about="Server release whose preprocessing is followed.",
        default="transformers-pil-5",
    ),
]
BackendOption = Annotated[
    str | None,
    option(
        "--backend",
        metavar="NAME",
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
        "--workers", metavar="N", about="Items read and decoded at once.", default="one per core"
    ),
]
BatchSizeOption = Annotated[
    str | None,
    option(
        "--batch-size",
        metavar="N",
        about="Items in one call of the encoder.",
        default="chosen by the encoder",
    ),
]
NullOption = Annotated[
    bool, option("--null", "-0", about="Names in lists end with a NUL byte, not a newline.")
]
LimitOption = Annotated[
    str | None, option("--limit", metavar="N", about="Stop after the first N items.")
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
        about="Whether an item's failure ends the run.",
        default="skip",
    ),
]
MaxErrorsOption = Annotated[
    str | None,
    option(
        "--max-errors",
        metavar="N|P%",
        about="Stop when more items than this have failed.",
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
    option("--events", metavar="FILE", about="One JSON line per item to FILE, or - for stderr."),
]


def settings_for(**flags: Any) -> Settings:  # noqa: ANN401  flags of any type
    """The settings under the flags of a command.

    Raises:
        UsageError: a flag, a variable or a settings file has a value that makes no sense, or
            there is no current folder.
        RefusedError: a project's file sets what it must not.
    """
    from vcache_cli.config import load_settings

    try:
        cwd = Path.cwd()
    except FileNotFoundError:
        raise UsageError(
            "the current folder was removed", hint="`cd` to a folder that is there"
        ) from None
    return load_settings(flags, environ=os.environ, cwd=cwd)


def the_store(argument: str | None, option: str | None) -> str | None:
    """The store that the user named; None where it was not named.

    Raises:
        UsageError: two different ones.
    """
    if argument and option and argument != option:
        raise UsageError(
            f"two stores were named: `{argument}` and `{option}`", hint="name one of them"
        )
    return argument or option


def parsed(flag: str, value: str | None, *, expected: str, parse: Any) -> Any:  # noqa: ANN401  each option's own type
    """`value` as `parse` reads it; None where the flag was not given.

    Raises:
        UsageError: it cannot be read, with the flag and what is expected.
    """
    if value is None:
        return None
    try:
        return parse(value)
    except (ValueError, UsageError):
        raise UsageError(f"`{flag}`: expected {expected}, got `{value}`") from None
