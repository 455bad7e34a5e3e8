"""Makes the index agree with the directories, reading only those that changed."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vcache_cli.store.index_schema import pack_key, signed
from vcache_cli.store.memos import SETTLE_NS
from vcache_cli.store.rows import read_row
from vcache_cli.store.scan import scan_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from vcache_cli.store.index_entries import EntryTable, Remembered
    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.rows import EntryRow
    from vcache_cli.store.scan import DirectoryScan

__all__ = ["Refresh", "refresh"]


@dataclass(frozen=True, slots=True)
class Refresh:
    """What a refresh had to do."""

    directories_read: int = 0
    headers_read: int = 0


def refresh(
    root: StoreRoot, table: EntryTable, transact: Callable[[Callable[[], object]], None]
) -> Refresh:
    """Compare the directories' mtimes with those remembered, and read what differs.

    Args:
        root: the store.
        table: its rows.
        transact: runs a write in a short transaction; headers are read outside of it.

    Raises:
        sqlite3.DatabaseError: the index broke while it was read.
    """
    known = table.directories()
    begun_ns = time.time_ns()
    seen: set[str] = set()
    directories = headers = 0
    for path, scanned in _changed(root, known):
        seen.add(path)
        if scanned is None:
            continue
        rows = _changed_rows(root, table, scanned)
        settled = not scanned.error and scanned.mtime_ns < begun_ns - SETTLE_NS
        mtime_ns = scanned.mtime_ns if settled else 0
        transact(_Put(table, scanned, rows, mtime_ns))
        directories, headers = directories + 1, headers + len(rows)
    gone = sorted(known.keys() - seen)
    if gone:
        transact(lambda: table.drop_directories(gone))
    return Refresh(directories, headers)


@dataclass(frozen=True, slots=True)
class _Put:
    table: EntryTable
    scanned: DirectoryScan
    rows: list[EntryRow]
    mtime_ns: int

    def __call__(self) -> None:
        self.table.put_directory(self.scanned, self.rows, self.mtime_ns)


def _changed(
    root: StoreRoot, known: dict[str, Remembered]
) -> Iterator[tuple[str, DirectoryScan | None]]:
    """Every directory below the root; with what it holds where that may have changed."""
    below: dict[str, list[str]] = {}
    for path in sorted(known, reverse=True):
        if path:
            below.setdefault(path.rpartition("/")[0], []).append(path)
    waiting = [""]
    while waiting:
        path = waiting.pop()
        if _is_same(root.path, path, known.get(path)):
            waiting.extend(below.get(path, ()))
            yield path, None
            continue
        scanned = scan_directory(root.path, path, root.layout)
        waiting.extend(reversed(scanned.subdirectories))
        yield path, scanned


def _is_same(root: Path, path: str, known: Remembered | None) -> bool:
    if known is None or not known.mtime_ns:
        return False
    try:
        status = os.lstat(os.path.join(root, path))
    except OSError:
        return False
    return status.st_mtime_ns == known.mtime_ns and signed(status.st_ino) == known.inode


def _changed_rows(root: StoreRoot, table: EntryTable, scanned: DirectoryScan) -> list[EntryRow]:
    """Rows of the entries whose size, mtime or inode is not the one known."""
    known = table.identities(scanned.path)
    rows = []
    for facts in scanned.entries:
        if known.get(pack_key(facts.key or "")) != list(facts.identity):
            row = read_row(root, facts)
            if row is not None:
                rows.append(row)
    return rows
