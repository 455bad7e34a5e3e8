"""What a command line asked for: its settings, its store, its values."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import UsageError

if TYPE_CHECKING:
    from vcache_cli.config import Settings

__all__ = ["parsed", "settings_for", "the_store"]


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
