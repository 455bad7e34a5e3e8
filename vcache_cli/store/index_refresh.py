"""Makes the index agree with the directories, reading only those that changed."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vcache_cli.store.directory_state import DirectoryState
from vcache_cli.store.index_values import pack_key
from vcache_cli.store.memos import SETTLE_NS
from vcache_cli.store.rows import read_row
from vcache_cli.store.scan import scan_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Final

    from vcache_cli.store.index_directories import Remembered
    from vcache_cli.store.index_entries import EntryTable
    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.rows import EntryRow
    from vcache_cli.store.scan import DirectoryScan

__all__ = ["Refresh", "refresh"]

_BATCH_ROWS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Refresh:
    """What a refresh had to do."""

    directories_read: int = 0
    headers_read: int = 0
    unseen: tuple[tuple[str, str], ...] = ()
    """(path below the root, why it could not be listed or looked at); the index lacks it."""


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
    known = table.directories.known()
    begun_ns = time.time_ns()
    seen: set[str] = set()
    done = Refresh()
    batch = _Batch(table)
    for path, scanned in _changed(root, known):
        seen.add(path)
        if scanned is None:
            continue
        rows = _changed_rows(root, table, scanned)
        unseen = _unseen(scanned)
        settled = not (scanned.error or unseen) and scanned.state.mtime_ns < begun_ns - SETTLE_NS
        batch.add(scanned, rows, scanned.state if settled else scanned.state._replace(mtime_ns=0))
        done = Refresh(
            done.directories_read + 1, done.headers_read + len(rows), done.unseen + unseen
        )
        if batch.rows >= _BATCH_ROWS:
            transact(batch.write)
            batch = _Batch(table)
    if batch.directories:
        transact(batch.write)
    gone = sorted(known.keys() - seen)
    if gone:
        transact(lambda: table.drop_directories(gone))
    return done


def _unseen(scanned: DirectoryScan) -> tuple[tuple[str, str], ...]:
    if scanned.error and not scanned.is_gone:
        return ((scanned.path, scanned.error),)
    return scanned.unseen


class _Batch:
    """Directories to be written in one transaction: rows lie all over the index's pages."""

    def __init__(self, table: EntryTable) -> None:
        self.rows = 0
        self.directories = 0
        self._table = table
        self._parts: list[tuple[DirectoryScan, list[EntryRow], DirectoryState]] = []

    def add(self, scanned: DirectoryScan, rows: list[EntryRow], state: DirectoryState) -> None:
        """One directory more."""
        self._parts.append((scanned, rows, state))
        self.rows += len(rows)
        self.directories += 1

    def write(self) -> None:
        """Put all of them into the open transaction."""
        for scanned, rows, state in self._parts:
            self._table.put_directory(scanned, rows, state)


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
    if known is None or not known.state.mtime_ns:
        return False
    try:
        status = os.lstat(os.path.join(root, path))
    except OSError:
        return False
    return DirectoryState.of(status) == known.state


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
