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
    "ProfileOption",
    "QuietOption",
    "RetryErrorsOption",
    "ShardOption",
    "Sources",
    "StageOption",
    "StoreArgument",
    "StoreOption",
    "TargetOption",
    "VerboseOption",
    "WorkersOption",
    "YesOption",
    "parsed",
    "settings_for",
    "the_store",
]


def _option(name: str, *more: str, about: str, metavar: str | None = None) -> Any:  # noqa: ANN401  what typer takes for an option
    return typer.Option(name, *more, help=about, metavar=metavar, show_default=False)


Sources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SOURCE",
        show_default=False,
        help="Files, folders, globs, @LIST (a file of names), or - for names from stdin.",
    ),
]
StoreArgument = Annotated[
    str | None,
    typer.Argument(metavar="STORE", show_default=False, help="The store, instead of --store."),
]
StoreOption = Annotated[
    str | None,
    _option(
        "--store",
        "-s",
        metavar="DIR",
        about="The store; else VCACHE_STORE, a settings file, or the platform's cache folder.",
    ),
]
ModelOption = Annotated[
    str | None,
    _option(
        "--model",
        "-m",
        metavar="MODEL",
        about="A model folder, or the name of a model in the local Hugging Face cache.",
    ),
]
TargetOption = Annotated[
    str | None,
    _option("--target", metavar="NAME", about="Consumer whose keys and files are written."),
]
StageOption = Annotated[
    str | None,
    _option("--stage", metavar="features|pixels", about="How far entries go."),
]
ProfileOption = Annotated[
    str | None,
    _option("--profile", metavar="NAME", about="Server whose preprocessing is followed."),
]
BackendOption = Annotated[
    str | None,
    _option("--backend", metavar="NAME", about="What encodes: numpy, mlx; else the fastest here."),
]
DtypeOption = Annotated[
    str | None,
    _option("--dtype", metavar="DTYPE", about="Of stored features: bfloat16, float16, float32."),
]
WorkersOption = Annotated[
    str | None, _option("--workers", metavar="N", about="Items read and decoded at once.")
]
BatchSizeOption = Annotated[
    str | None, _option("--batch-size", metavar="N", about="Items in one call of the encoder.")
]
NullOption = Annotated[
    bool, _option("--null", "-0", about="Names in lists end with a NUL byte, not a newline.")
]
LimitOption = Annotated[
    str | None, _option("--limit", metavar="N", about="Stop after the first N items.")
]
JsonOption = Annotated[bool, _option("--json", about="Print one JSON document instead of text.")]
QuietOption = Annotated[
    bool, _option("--quiet", "-q", about="No progress and no talk; only what a script needs.")
]
VerboseOption = Annotated[bool, _option("--verbose", "-v", about="Say more on stderr.")]
YesOption = Annotated[bool, _option("--yes", about="Delete without asking.")]
DryRunOption = Annotated[bool, _option("--dry-run", about="Show the plan, and change nothing.")]


OnErrorOption = Annotated[
    str | None,
    _option("--on-error", metavar="skip|fail", about="Whether an item's failure ends the run."),
]
MaxErrorsOption = Annotated[
    str | None,
    _option("--max-errors", metavar="N|P%", about="Stop when more items than this have failed."),
]
RetryErrorsOption = Annotated[
    bool, _option("--retry-errors", about="Try items again that failed in an earlier run.")
]
ShardOption = Annotated[
    str | None, _option("--shard", metavar="I/N", about="Only the I-th of N parts of the sources.")
]
MaxSizeOption = Annotated[
    str | None, _option("--max-size", metavar="SIZE", about="Cap of the store, such as 20GiB.")
]
MinFreeOption = Annotated[
    str | None, _option("--min-free", metavar="SIZE", about="Space to leave free on the disk.")
]
OnFullOption = Annotated[
    str | None,
    _option("--on-full", metavar="stop|prune", about="What to do when there is no space left."),
]
ExcludeOption = Annotated[
    list[str] | None,
    _option("--exclude", metavar="GLOB", about="Leave out what matches; may be given again."),
]
EventsOption = Annotated[
    str | None,
    _option("--events", metavar="FILE", about="One JSON line per item to FILE, or - for stderr."),
]


def settings_for(**flags: Any) -> Settings:  # noqa: ANN401  flags of any type
    """The settings under the flags of a command.

    Raises:
        UsageError: a flag, a variable or a settings file has a value that makes no sense.
        RefusedError: a project's file sets what it must not.
    """
    from vcache_cli.config import load_settings

    return load_settings(flags, environ=os.environ, cwd=Path.cwd())


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
