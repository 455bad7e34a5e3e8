"""The index: rows and memos in a disposable SQLite file. Files are the truth.

It may vanish, be damaged or be held by others at any time: that costs time, never data, and no
method here raises because of it.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING

from vcache_cli.errors import VcacheError
from vcache_cli.header import canonical_order
from vcache_cli.store.create import write_meta
from vcache_cli.store.index_entries import EntryTable, Totals
from vcache_cli.store.index_file import checked_rows
from vcache_cli.store.index_memos import IndexMemos
from vcache_cli.store.index_refresh import Refresh, refresh
from vcache_cli.store.index_schema import open_database
from vcache_cli.store.index_values import Packed, pack_key, unpack_key
from vcache_cli.store.meta import vcache_dir
from vcache_cli.store.rows import EntryRow, FileFacts, TensorShape, row_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType
    from typing import Final, Literal, Self

    from vcache_cli.entry import Entry
    from vcache_cli.store.directory_state import DirectoryState
    from vcache_cli.store.index_directories import Names
    from vcache_cli.store.index_schema import Database
    from vcache_cli.store.meta import StoreRoot

__all__ = ["Index", "open_index"]

_PENDING_ROWS: Final = 4000


def open_index(root: StoreRoot, *, mode: Literal["r", "w"] = "r") -> Index:
    """The index of a store, whatever state its file is in.

    Args:
        root: the store; where it has no ``.vcache`` or is read-only, the index is in memory.
        mode: ``w`` where a run will remember things; ``r`` refreshes rows at most.
    """
    if mode == "w" and not vcache_dir(root.path).is_dir():
        with suppress(OSError, VcacheError):  # then it is in memory
            write_meta(root.path, root.meta)
    return Index(root, open_database(root, write=mode == "w"))


class Index(IndexMemos):
    """Rows of entries, and the memos of earlier runs. One thread."""

    def __init__(self, root: StoreRoot, database: Database) -> None:
        self._is_fresh = False
        self._rows: dict[str, EntryRow | None] = {}
        self._uses: dict[str, int] = {}
        self._sources: dict[tuple[str, str], None] = {}
        self._names: dict[str, Names] = {}
        super().__init__(root, database)

    def _take(self, connection: sqlite3.Connection) -> None:
        super()._take(connection)
        self._entries = EntryTable(connection, self._root.layout)
        self._directories = self._entries.directories

    def _forget_ids(self) -> None:
        self._entries.forget_ids()

    def __enter__(self) -> Self:
        """The index itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit and close."""
        self.close()

    # --- entries -----------------------------------------------------------------------------

    def add(self, row: EntryRow) -> None:
        """Add a row, or replace that of the same key; written in batches."""
        self._rows[row.key] = row
        self._commit_when_full()

    def add_entry(self, entry: Entry, size_bytes: int) -> None:
        """Add the row of an entry just published; nothing where it is already gone again."""
        path = self._root.layout.path_of(entry.key)
        if entry.provenance.created is None:
            return  # only the file knows; the next refresh reads it
        try:
            facts = FileFacts.of(path, os.lstat(self._root.path / path), entry.key)
        except OSError:
            return
        if facts.size_bytes != size_bytes:
            return  # someone has replaced it since
        parts = entry.parts  # as a scan of the file would find them
        order = canonical_order({name: each.dtype for name, each in parts.items()})
        tensors = [(name, parts[name]) for name in order]
        shapes = (TensorShape(name, each.dtype, each.shape) for name, each in tensors)
        self.add(row_of(facts, entry, shapes))

    def used_within(self, shard: str, begin_ns: int, end_ns: int) -> list[str]:
        """Keys of the entries of `shard` that were used then, as far as is known."""
        return self._ask(lambda: self._directories.used_within(shard, begin_ns, end_ns), [])

    def used_otherwise(self, shard: str, begin_ns: int, end_ns: int) -> list[str]:
        """Keys of its other entries, as far as is known."""
        return self._ask(lambda: self._directories.used_otherwise(shard, begin_ns, end_ns), [])

    def count_in(self, shard: str) -> int:
        """Number of its entries, as far as is known."""
        return self._ask(lambda: self._directories.count_in(shard), 0)

    def has_names(self, shard: str, state: DirectoryState) -> bool:
        """True where every known entry of `shard` has its file while that has `state`.

        Never of a network's file system: another machine's changes show late there.
        """
        asked = self._database.state != "memory"
        return asked and self._ask(
            lambda: self._directories.has_names(shard, state), otherwise=False
        )

    def keep_names(self, shard: str, names: Names) -> None:
        """That every known entry of `shard` has its file now; written with what is pending."""
        self._names[shard] = names

    def mark_used(self, key: str, mtime_ns: int) -> None:
        """That the entry's file has this mtime; written in batches."""
        self._uses[key] = mtime_ns
        self._commit_when_full()

    def remove(self, key: str) -> None:
        """Forget an entry and its sources; written in batches."""
        self._rows[key] = None
        self._commit_when_full()

    def add_source(self, key: str, path: str) -> None:
        """That the file at `path` has this entry."""
        self._sources[key, path] = None
        self._commit_when_full()

    def sources(self, key: str) -> list[str]:
        """Paths (`surrogateescape`) of the files that are known to have this entry, sorted."""
        self.commit()
        return self._ask(lambda: self._query_sources(key), [])

    def _query_sources(self, key: str) -> list[str]:
        rows = self._connection.execute(
            "SELECT path FROM sources WHERE key = ? ORDER BY path", (pack_key(key),)
        )
        return [os.fsdecode(path) for (path,) in checked_rows(rows, (bytes,))]

    def keys_of(self, path: str) -> list[str]:
        """Keys of the entries that the source file at `path` is known to have, sorted."""
        self.commit()
        return self._ask(lambda: self._query_keys(path), [])

    def _query_keys(self, path: str) -> list[str]:
        rows = self._connection.execute(
            "SELECT key FROM sources WHERE path = ?", (os.fsencode(path),)
        )
        return sorted(unpack_key(key) for (key,) in rows)

    def rows(self, tail: str = "", parameters: Sequence[object] = ()) -> Iterator[EntryRow]:
        """Rows of entries; `tail` is our own SQL (``WHERE``, ``ORDER BY``) with question marks."""
        self.commit()
        nothing: list[EntryRow] = []
        yield from self._ask(lambda: list(self._entries.select(tail, parameters)), nothing)

    def totals(self) -> Totals:
        """Sums over all entries, as of the last refresh and what was added since."""
        self.commit()
        return self._ask(lambda: self._entries.totals(), Totals(0, 0, 0))  # noqa: PLW0108  `_entries` changes

    def shared_bytes(self) -> int:
        """Allocated bytes that the rows count more than once, for files with several names."""
        return self._ask(lambda: self._entries.shared_bytes(), 0)  # noqa: PLW0108  `_entries` changes

    def foreign_bytes(self) -> int:
        """Bytes of what is neither an entry nor ours, as of the last refresh."""
        return self._ask(lambda: self._entries.foreign_bytes(), 0)  # noqa: PLW0108  `_entries` changes

    def refresh(self) -> Refresh:
        """Make the rows agree with the directories; reads only what changed."""
        self.commit()
        self._is_fresh = True
        for _ in range(2):
            try:
                return refresh(self._root, self._entries, self._transaction)
            except sqlite3.DatabaseError as error:
                self._give_up(error)  # and once more, in memory
        return Refresh()

    def _check_key(self, key: Packed) -> None:
        self._entries.path_of(unpack_key(key))

    def _refill(self) -> None:
        if self._is_fresh:
            self.refresh()

    def forget_directories(self, paths: Iterable[str]) -> None:
        """Read these directories again at the next refresh."""
        self._transact(lambda: self._directories.forget(paths))

    # --- writing -----------------------------------------------------------------------------

    def commit(self) -> None:
        """Write what is pending. What cannot be written is given up: it is only a hint."""
        pending = (self._names, self._rows, self._uses, self._sources)
        if not (any(pending) or self._memos.pending):
            return
        self._transact(self._write)
        self._memos.clear()
        for each in pending:
            each.clear()

    def close(self) -> None:
        """Commit and close; the index cannot be used any more."""
        self.commit()
        self._end()

    def _write(self) -> None:
        self._memos.write()
        self._directories.keep_names(self._names)  # before rows that may be of files gone since
        self._entries.remove([key for key, row in self._rows.items() if row is None])
        self._entries.put([row for row in self._rows.values() if row is not None])
        self._entries.mark_used(self._uses)
        self._connection.executemany(
            "INSERT OR IGNORE INTO sources VALUES (?, ?)",
            [(pack_key(key), os.fsencode(path)) for key, path in self._sources],
        )

    def _commit_when_full(self) -> None:
        rows = len(self._rows) + len(self._uses) + len(self._sources)
        if rows + self._memos.pending >= _PENDING_ROWS:
            self.commit()
