"""Stores by path: the target that a store names decides its layout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from vcache_cli.assemble.targets import load_target, usable_targets
from vcache_cli.errors import NotAStoreError
from vcache_cli.store import (
    Budget,
    StoreMeta,
    StoreRoot,
    create_meta,
    read_meta,
    vcache_dir,
)
from vcache_cli.store.index import open_index
from vcache_cli.store.meta import FORMAT
from vcache_cli.store.recognise import looks_like

if TYPE_CHECKING:
    from vcache_cli.assemble.options import WarmOptions

__all__ = ["create_root", "open_budget", "open_root"]


def open_root(path: str | os.PathLike[str]) -> StoreRoot:
    """The store at `path`; nothing is made or changed.

    Where `.vcache` is missing (deleted, or never made by a server), what lies there tells.

    Raises:
        NotAStoreError: there is none.
        FormatTooNewError: written by a newer vcache.
        AccessError: it may not be read.
        UsageError: it is of a target that is not installed.
    """
    folder = Path(path).absolute()
    try:
        meta = read_meta(folder)
    except NotAStoreError:
        recognised = _recognise(folder)
        if recognised is None:
            raise
        return recognised
    return StoreRoot(folder, load_target(meta.target).layout, meta)


def _recognise(folder: Path) -> StoreRoot | None:
    if os.path.lexists(vcache_dir(folder) / "store.json"):
        return None  # there and damaged: no guess
    for target in usable_targets():
        if looks_like(folder, target.layout):
            return StoreRoot(folder, target.layout, StoreMeta(FORMAT, "", target.name))
    return None


def create_root(path: str | os.PathLike[str], *, target: str) -> StoreRoot:
    """The store at `path`, made where there is none.

    Raises:
        UsageError: it is a store of another target, or no such target is installed.
        RefusedError: a directory that holds other things.
        AccessError, StoreFullError: it cannot be made.
        NotAStoreError, FormatTooNewError: see `open_root`.
    """
    folder = Path(path).absolute()
    layout = load_target(target).layout
    return StoreRoot(folder, layout, create_meta(folder, target=target))


def open_budget(root: StoreRoot, options: WarmOptions) -> Budget | None:
    """The room that a run may use; None where nothing limits it but the disk."""
    if options.max_size_bytes is None and options.min_free_bytes is None:
        return None
    used_bytes = 0
    if options.max_size_bytes is not None:
        with open_index(root, mode="w") as index:
            index.refresh()
            used_bytes = index.totals().logical_bytes
    return Budget(
        max_size_bytes=options.max_size_bytes,
        min_free_bytes=options.min_free_bytes,
        used_bytes=used_bytes,
        free_bytes=lambda: _free_bytes(root.path),
    )


def _free_bytes(path: Path) -> int:
    facts = os.statvfs(path)
    return facts.f_bavail * facts.f_frsize
