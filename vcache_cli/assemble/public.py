"""The library's front door: a store by path, a warm in one call."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vcache_cli.assemble.checking import check_corpus
from vcache_cli.assemble.options import WarmOptions
from vcache_cli.assemble.stores import open_root
from vcache_cli.assemble.targets import takes_groups
from vcache_cli.assemble.warming import open_warm
from vcache_cli.media import LogRules
from vcache_cli.media import sources as open_sources
from vcache_cli.store import DiskStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vcache_cli.media import Sources
    from vcache_cli.outcome import Outcome
    from vcache_cli.pipeline import CheckReport

__all__ = ["check", "open_store", "warm"]

Named = str | os.PathLike[str]
"""A source as the caller names it."""


def _spelled(sources: Named | Sequence[Named]) -> list[str]:
    """The sources as texts; one that stands alone is not taken for a list of letters."""
    if isinstance(sources, (str, os.PathLike)):
        return [os.fspath(sources)]
    return [os.fspath(each) for each in sources]


def _opened(sources: Named | Sequence[Named], options: WarmOptions) -> Sources:
    rules = LogRules(groups="also" if takes_groups(options.target) else "no")
    return open_sources(_spelled(sources), rules=rules)


def open_store(
    path: str | os.PathLike[str], *, mode: Literal["r", "w"] = "r", touch: bool = True
) -> DiskStore:
    """The store at `path`; read-only unless `mode` is ``w``.

    A get counts as use (an entry's mtime is set at most once an hour) unless `touch` is False.

    Raises:
        NotAStoreError: there is none.
        FormatTooNewError: written by a newer vcache.
        AccessError: it may not be read, or with ``w`` not be written.
        RefusedError: someone else could have filled it.
    """
    return DiskStore(open_root(path), mode=mode, touch=touch)


def warm(
    sources: Named | Sequence[Named],
    *,
    store: str | os.PathLike[str],
    model: str | os.PathLike[str],
    options: WarmOptions | None = None,
) -> Iterator[Outcome]:
    """Warm `store` with what `sources` name; the Outcome of each item, as it is known.

    Args:
        sources: files, folders, globs, archives, tables, request logs (which name no files
            outside of their folder), ``@lists``; a single one may stand alone.
        store: a folder, made where there is none; or the URL of a store in a bucket.
        model: a model folder, or a name in the local Hugging Face cache.
        options: the defaults where None.

    Raises:
        VcacheError: what `open_warm` and the iteration of its run raise.
    """
    chosen = options or WarmOptions()
    with open_warm(
        _opened(sources, chosen), store=os.fspath(store), model=str(model), options=chosen
    ) as run:
        yield from run


def check(
    sources: Named | Sequence[Named],
    *,
    store: str | os.PathLike[str],
    model: str | os.PathLike[str],
    options: WarmOptions | None = None,
) -> CheckReport:
    """Would each item hit? See `warm` for the arguments.

    Raises:
        VcacheError: see `check_corpus`.
    """
    chosen = options or WarmOptions()
    return check_corpus(
        _opened(sources, chosen), store=Path(store), model=str(model), options=chosen
    )
