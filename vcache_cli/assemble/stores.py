"""Stores by path: the target that a store names decides its layout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from vcache_cli.assemble.targets import load_target, usable_targets
from vcache_cli.buckets import is_cut_url
from vcache_cli.errors import NotAStoreError, RefusedError, UsageError
from vcache_cli.protocols import Bounded
from vcache_cli.quantity import format_size
from vcache_cli.store import (
    Budget,
    StoreMeta,
    StoreRoot,
    adopt_meta,
    create_meta,
    read_meta,
    vcache_dir,
)
from vcache_cli.store.index import open_index
from vcache_cli.store.meta import FORMAT
from vcache_cli.store.owners import is_planted
from vcache_cli.store.recognise import is_served, looks_like

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.protocols import Target

__all__ = ["create_root", "open_budget", "open_root", "refuse_other_target"]


def open_root(path: str | os.PathLike[str], *, target: str | None = None) -> StoreRoot:
    """The store at `path`; nothing is made or changed.

    Where `.vcache` is missing (deleted, or never made by a server), what lies there tells; so it
    does where everyone may write and `.vcache` is another user's.

    Args:
        path: the store.
        target: whose store it is; None: as it says itself, or as its files tell.

    Raises:
        NotAStoreError: there is none.
        FormatTooNewError: written by a newer vcache.
        AccessError: it may not be read.
        UsageError: it is of a target that is not installed, of another than `target`, or looks
            like those of several.
    """
    folder = Path(path).absolute()
    try:
        meta = _believed_meta(folder)
    except NotAStoreError:
        recognised = _recognise(folder, target)
        if recognised is None:
            raise
        return recognised
    if target is not None:
        refuse_other_target(folder, meta, target)
    return StoreRoot(folder, load_target(meta.target).layout, meta)


def refuse_other_target(path: Path, meta: StoreMeta, target: str) -> None:
    """Keep `target` away from the store at `path`, which says `meta`.

    Raises:
        UsageError: it is of another target.
    """
    if meta.target != target:
        raise UsageError(
            f"{path} is a store of target `{meta.target}`, not `{target}`",
            hint=f"say `--target {meta.target}`, or name another --store",
        )


def _believed_meta(folder: Path) -> StoreMeta:
    if is_planted(folder):
        raise NotAStoreError(
            f"{folder}: everyone may write to it, and its `.vcache` is another user's",
            hint="`--target NAME` says whose store it is",
        )
    return read_meta(folder)


def _recognise(folder: Path, wanted: str | None) -> StoreRoot | None:
    if os.path.lexists(vcache_dir(folder) / "store.json") and not is_planted(folder):
        return None  # there and damaged: no guess
    if wanted is not None:
        target = load_target(wanted)
        return _unwritten(folder, target) if folder.is_dir() else None
    found = [each for each in usable_targets() if looks_like(folder, each.layout)]
    if len(found) > 1:
        names = " or ".join(f"--target {each.name}" for each in found)
        raise UsageError(
            f"{folder} looks like a store of {' and of '.join(each.name for each in found)}",
            hint=f"say which one it is: {names}",
        )
    return _unwritten(folder, found[0]) if found else None


def _unwritten(folder: Path, target: Target) -> StoreRoot:
    """A server's own store, which vcache never wrote."""
    return StoreRoot(folder, target.layout, StoreMeta(FORMAT, "", target.name))


def create_root(
    path: str | os.PathLike[str], *, target: str, options: Mapping[str, Any] | None = None
) -> StoreRoot:
    """The store at `path`, made where there is none.

    Args:
        path: the store.
        target: whose store it is.
        options: what all its entries have in common, see `store_options`; None: nothing.

    Raises:
        UsageError: it is a store of another target, or looks like one, or no such target is
            installed.
        RefusedError: it is a store with other options, or a directory that holds other things.
        AccessError, StoreFullError: it cannot be made.
        NotAStoreError, FormatTooNewError: see `open_root`.
    """
    folder = Path(path).absolute()
    layout = load_target(target).layout
    if not os.path.lexists(vcache_dir(folder) / "store.json"):
        _refuse_others(folder, target)
        _refuse_cut_url(os.fspath(path))
    make = adopt_meta if is_served(folder, layout) else create_meta
    return StoreRoot(folder, layout, make(folder, target=target, target_options=options))


def _refuse_cut_url(path: str) -> None:
    if is_cut_url(path):
        scheme, _, rest = path.partition(":/")
        raise UsageError(
            f"`{path}` is a URL with one slash",
            hint=f"write {scheme}://{rest} (a `Path` takes one away); a folder of that name needs "
            "its absolute path",
        )


def _refuse_others(folder: Path, target: str) -> None:
    """Entries of another target stay by themselves, though nothing else says whose they are."""
    found = [each.name for each in usable_targets() if looks_like(folder, each.layout)]
    if found and target not in found:
        raise UsageError(
            f"{folder} looks like a store of target `{found[0]}`, not of `{target}`",
            hint=f"say `--target {found[0]}`, or name another --store",
        )


def open_budget(
    root: StoreRoot, options: WarmOptions, target: Target, *, shares: int = 1
) -> Budget | None:
    """The room that a run may use; None where nothing limits it but the disk.

    Args:
        root, options, target: of the run.
        shares: writers that divide the room up to the limit among them, each unaware of the
            others.

    Raises:
        RefusedError: a limit above which the target's server deletes entries itself.
    """
    limit_bytes = options.max_size_bytes
    if isinstance(target, Bounded):
        limit_bytes = _bounded(target, limit_bytes)
    if limit_bytes is None and options.min_free_bytes is None:
        return None
    used_bytes = 0
    if limit_bytes is not None:
        with open_index(root, mode="w") as index:
            index.refresh()
            used_bytes = index.totals().logical_bytes
        limit_bytes = used_bytes + max(0, limit_bytes - used_bytes) // shares
    return Budget(
        max_size_bytes=limit_bytes,
        min_free_bytes=options.min_free_bytes,
        used_bytes=used_bytes,
        free_bytes=lambda: _free_bytes(root.path),
    )


def _bounded(target: Bounded, wanted_bytes: int | None) -> int:
    most_bytes = target.max_store_bytes
    if wanted_bytes is not None and wanted_bytes > most_bytes:
        raise RefusedError(
            f"--max-size {format_size(wanted_bytes)}: the server deletes what it has, good or not, "
            f"soon above {format_size(most_bytes)} in its whole folder",
            hint="leave --max-size away, or give a smaller one",
        )
    return most_bytes if wanted_bytes is None else wanted_bytes


def _free_bytes(path: Path) -> int:
    facts = os.statvfs(path)
    return facts.f_bavail * facts.f_frsize
