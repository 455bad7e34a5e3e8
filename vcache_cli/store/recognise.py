"""Tell a store by what lies in it, where nothing says so."""

from __future__ import annotations

import os
from collections.abc import Iterator

from vcache_cli.protocols import Layout

__all__ = ["looks_like"]

_MAX_NAMES = 1_000
"""Names looked at in one directory: entries are many in a store, strangers few."""


def looks_like(path: str | os.PathLike[str], layout: Layout) -> bool:
    """True where some file below `path` lies where `layout` puts an entry. Changes nothing."""
    for shard in layout.shards or ():
        for name in _names(os.path.join(path, shard)):
            if layout.key_of(f"{shard}/{name}") is not None:
                return True
    return False


def _names(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as found:
            for _, item in zip(range(_MAX_NAMES), found, strict=False):
                if item.is_file(follow_symlinks=False):
                    yield item.name
    except OSError:  # no such shard, or one that may not be read
        return
