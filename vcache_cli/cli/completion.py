"""Words that a shell offers: quick, bounded, and never an error in the middle of a line."""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vcache_cli.errors import VcacheError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Final

__all__ = ["choices", "keys", "models", "plugins", "presets", "runs", "schemas"]

_MOST: Final = 50
"""Words offered at once."""

_PLAIN: Final = re.compile(r"[\w./:@%+=,-]+")
"""What no shell reads as more than a word."""
_CHOICE: Final = re.compile(r"[a-z][a-z0-9-]*(\|[a-z][a-z0-9-]*)+")


def choices(metavar: str | None) -> Callable[[str], list[str]] | None:
    """Offers what a metavar such as ``features|pixels`` names; None where it names no choices."""
    if metavar is None or not _CHOICE.fullmatch(metavar):
        return None
    words = metavar.split("|")

    def offer(incomplete: str) -> list[str]:
        return _fitting(words, incomplete)

    return offer


def plugins(group: str, *more: str) -> Callable[[str], list[str]]:
    """Offers the installed plug-ins of a group by name, and `more`."""

    def offer(incomplete: str) -> list[str]:
        from vcache_cli import registry

        return _fitting(sorted({*registry.names(group), *more}), incomplete)

    return offer


def presets(incomplete: str) -> list[str]:
    """Presets of the settings files that hold here."""
    from vcache_cli.config import preset_files

    try:
        return _fitting(preset_files(Path.cwd()), incomplete)
    except (VcacheError, OSError):
        return []


def models(incomplete: str) -> list[str]:
    """Models in the local Hugging Face cache; folders are offered by the shell itself."""
    from vcache_cli.checkpoint.hub import cached_names

    try:
        return _fitting(cached_names(), incomplete)
    except VcacheError:  # a user without a home
        return []


def keys(context: typer.Context, incomplete: str) -> list[str]:
    """Keys of the store that the line names so far, or of the one that holds here."""
    from vcache_cli.store.glimpse import glimpse_keys

    try:
        return glimpse_keys(_root(context), incomplete, most=_MOST)
    except (VcacheError, OSError):
        return []


def runs(context: typer.Context, incomplete: str) -> list[str]:
    """Runs of that store, the latest first, and ``last``."""
    from vcache_cli.store.runs import list_runs

    try:
        latest = [run.id for run in reversed(list_runs(_root(context)))]
        return _fitting(["last", *latest], incomplete)
    except (VcacheError, OSError):
        return []


def schemas(incomplete: str) -> list[str]:
    """Documents that have a schema."""
    from vcache_cli.cli.documents import schema_names

    return _fitting(schema_names(), incomplete)


def _root(context: typer.Context) -> Any:  # noqa: ANN401  a StoreRoot
    """The store of the line so far.

    Raises:
        VcacheError, OSError: there is none.
    """
    from vcache_cli.assemble import open_root
    from vcache_cli.config import load_settings

    given = context.params
    flags = {"store": given.get("store") or given.get("where"), "preset": given.get("preset")}
    return open_root(load_settings(flags, environ=os.environ, cwd=Path.cwd()).store)


def _fitting(words: Iterable[str], incomplete: str) -> list[str]:
    """Those that begin so and that a shell takes as they are: a file may call a preset anything."""
    fits = (word for word in words if word.startswith(incomplete) and _PLAIN.fullmatch(word))
    return list(islice(fits, _MOST))
