"""Directories that a server made for entries that never came, or that are gone."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from vcache_cli.items import display_path
from vcache_cli.protocols import OwnDirectory
from vcache_cli.store.owners import anyone_may_write, owners_of
from vcache_cli.store.prune_scope import Doomed
from vcache_cli.store.rows import mtime_ns_of

if TYPE_CHECKING:
    from typing import Final

    from vcache_cli.store.index import Index
    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.scan import Scan

__all__ = ["EMPTY_SECONDS", "count_empties", "doomed_empties", "empties_of"]

EMPTY_SECONDS: Final = 86_400.0
"""A younger one may be waiting for the entry that the server is computing."""

_EMPTY: Final = """
FROM directories WHERE length(path) > 0 AND inode != 0
AND NOT EXISTS (SELECT 1 FROM entries WHERE directory = directories.id)
AND NOT EXISTS (SELECT 1 FROM foreign_files WHERE directory = directories.id)
"""


def count_empties(root: StoreRoot, index: Index) -> int | None:
    """Directories that might hold an entry and hold nothing; None where entries share theirs."""
    if not isinstance(root.layout, OwnDirectory):
        return None
    found = index.query(f"SELECT count(*) {_EMPTY}", types=(int,))
    return int(found[0][0]) if found else 0


def empties_of(root: StoreRoot, scan: Scan) -> int | None:
    """`count_empties`, by the directories themselves."""
    if not isinstance(root.layout, OwnDirectory):
        return None
    return sum(each.is_empty for each in scan.directories)


def doomed_empties(root: StoreRoot, index: Index, now: float) -> list[Doomed]:
    """Those that a prune removes: old enough, and surely the server's.

    In a directory that everyone may write to, an empty one may be anything (the place of a
    mount, of a socket): there the name has to tell. Sorted by path.
    """
    layout = root.layout
    if not isinstance(layout, OwnDirectory):
        return []
    paths = [os.fsdecode(path) for (path,) in index.query(f"SELECT path {_EMPTY}", types=(bytes,))]
    if anyone_may_write(root.path):
        paths = [path for path in paths if layout.is_telling(path)]
    owners = owners_of(root.path)
    found = (_doomed(root, path, owners) for path in sorted(paths))
    return [each for each in found if each and now - each.used_ns / 1e9 >= EMPTY_SECONDS]


def _doomed(root: StoreRoot, path: str, owners: frozenset[int]) -> Doomed | None:
    try:
        facts = os.lstat(os.path.join(root.path, path))
    except OSError:
        return None
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid not in owners:
        return None
    return Doomed(display_path(path), path, 0, mtime_ns_of(facts), facts.st_ino, "empty")
