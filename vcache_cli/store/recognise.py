"""Tell a store by what lies in it, where nothing says so."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from vcache_cli.protocols import Layout, OwnDirectory
from vcache_cli.store.owners import owners_of

__all__ = ["is_served", "looks_like"]

_MAX_NAMES = 1_000
"""Names looked at in one directory: entries are many in a store, strangers few."""


def looks_like(path: str | os.PathLike[str], layout: Layout) -> bool:
    """True where some file below `path` lies where `layout` puts an entry. Changes nothing.

    Where any directory may hold entries, that file and its directory have to be our own user's.
    """
    if layout.shards is None:
        return isinstance(layout, OwnDirectory) and _has_own_entry(os.fspath(path), layout)
    for shard in layout.shards:
        for name in _names(os.path.join(path, shard)):
            if layout.key_of(f"{shard}/{name}") is not None:
                return True
    return False


def is_served(path: str | os.PathLike[str], layout: Layout) -> bool:
    """True for a server's own folder, of entries or of their empty directories alone."""
    if looks_like(path, layout):
        return True
    try:
        names = set(os.listdir(path))
    except OSError:
        return False
    return bool(names) and layout.shards is not None and names <= set(layout.shards)


def _names(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as found:
            for _, item in zip(range(_MAX_NAMES), found, strict=False):
                if item.is_file(follow_symlinks=False):
                    yield item.name
    except OSError:  # no such shard, or one that may not be read
        return


def _has_own_entry(root: str, layout: Layout) -> bool:
    """One lstat for each directory, however many strangers there are: none is listed."""
    owners = owners_of(root)
    try:
        with os.scandir(root) as found:
            folders = [item.name for item in found if item.is_dir(follow_symlinks=False)]
    except OSError:
        return False
    return any(_is_own_entry(root, folder, layout, owners) for folder in folders)


def _is_own_entry(root: str, folder: str, layout: Layout, owners: frozenset[int]) -> bool:
    try:
        place = layout.path_of(folder)
        if layout.key_of(place) is None:
            return False
        file = os.lstat(f"{root}/{place}")
        above = os.lstat(f"{root}/{folder}")
    except (OSError, ValueError):
        return False
    real = stat.S_ISREG(file.st_mode) and stat.S_ISDIR(above.st_mode)
    return real and {file.st_uid, above.st_uid} <= owners
