"""A few keys of a store, quickly: names of files are read, and no more of them than a bound."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from vcache_cli.store.meta import StoreRoot

__all__ = ["glimpse_keys"]

_MOST_NAMES: Final = 20_000
"""Looked at in one go: some 20 ms."""


def glimpse_keys(root: StoreRoot, beginning: str, *, most: int) -> list[str]:
    """Up to `most` keys that start with `beginning`, sorted; in a very large store not all.

    Nothing is opened or changed, no index is asked: for a shell that completes a word.
    """
    keys = (root.layout.key_of(path) for path in islice(_paths(root, beginning), _MOST_NAMES))
    fitting = (key for key in keys if key is not None and key.startswith(beginning))
    return sorted(islice(fitting, most))


def _paths(root: StoreRoot, beginning: str) -> Iterator[str]:
    shards = root.layout.shards
    for name in sorted(_names(root.path)) if shards is None else shards:
        # Where the directories of entries are known, each is named as its keys begin.
        if shards is None or name.startswith(beginning[: len(name)]):
            yield from (f"{name}/{each}" for each in _names(os.path.join(root.path, name)))


def _names(folder: str | os.PathLike[str]) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return [each.name for each in islice(found, _MOST_NAMES)]
    except OSError:
        return []
