"""The entries' rows in one open index, with the directories that they were read from."""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.store.index_directories import DirectoryTable
from vcache_cli.store.index_values import Packed, check_types, pack_key, signed, unpack_key
from vcache_cli.store.rows import EntryRow, TensorShape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Final

    from vcache_cli.store.directory_state import DirectoryState
    from vcache_cli.store.rows import FileFacts
    from vcache_cli.store.scan import DirectoryScan
    from vcache_cli.store.scan_names import Naming

__all__ = ["EntryTable", "Totals"]

_SELECT: Final = """
SELECT key, bytes, allocated, used, inode, links, created, dated, stage, kind, model, tokens,
    tensors.value, source, finding
FROM entries JOIN labels ON labels.id = label JOIN tensors ON tensors.id = entries.tensors
"""
_TEXT: Final = str | None
_TYPES: Final = (
    *(bytes | str, int, int, int, int, int, int, int, _TEXT, _TEXT, _TEXT, int | None),
    *(str, bytes | str | None, _TEXT),
)
"""Of the columns of `_SELECT`."""
_BROKEN_ROWS: Final = (ValueError, TypeError, OverflowError, RecursionError)
"""What a row of a file that is not ours may raise where it is taken apart."""
# Not `OR REPLACE`, which takes a row away without its trigger.
_INSERT: Final = """
INSERT INTO entries VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (directory, key) DO UPDATE SET
    label = excluded.label, bytes = excluded.bytes, allocated = excluded.allocated,
    used = excluded.used, created = excluded.created, dated = excluded.dated,
    inode = excluded.inode, links = excluded.links, tokens = excluded.tokens,
    tensors = excluded.tensors, source = excluded.source
"""
_TOTALS: Final = """
SELECT ifnull(sum(entries), 0), ifnull(sum(bytes), 0), ifnull(sum(allocated), 0) FROM sums
"""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all entries."""

    entries: int
    logical_bytes: int
    allocated_bytes: int
    """On disk; a file with several names counts once."""


class EntryTable:
    """Rows of entries. One thread; the caller opens and ends transactions around writes."""

    def __init__(self, connection: sqlite3.Connection, naming: Naming) -> None:
        self._connection = connection
        self._naming = naming
        self.directories = DirectoryTable(connection)
        self._ids: dict[tuple[str, tuple[Any, ...]], int] = {}

    def forget_ids(self) -> None:
        """After a rollback: what was numbered in it is not there."""
        self._ids.clear()

    def identities(self, path: str) -> dict[Packed, list[int]]:
        """Bytes, allocated bytes, mtime, inode and links of a directory's files, by packed key.

        A file that could not be opened is left out: it may open now.
        """
        rows = self._connection.execute(
            "SELECT key, bytes, allocated, used, entries.inode, links FROM entries"
            " JOIN labels ON labels.id = label JOIN directories ON directory = directories.id"
            " WHERE path = ? AND finding IS NOT 'io_error'",
            (os.fsencode(path),),
        ).fetchall()
        for row in rows:
            check_types(row, (bytes | str, int, int, int, int, int))
        return {row[0]: [*row[1:4], row[4] % 2**64, row[5]] for row in rows}

    def put(self, rows: Iterable[EntryRow]) -> None:
        """Add rows, or replace those of the same keys."""
        values = [self._values(row) for row in rows]
        self._connection.executemany(_INSERT, values)
        self.directories.doubt({row[0] for row in values})

    def remove(self, keys: Iterable[str]) -> None:
        """Forget entries and their sources."""
        packed = [(pack_key(key),) for key in keys]
        places = [(self._directory_of(unpack_key(key)), key) for (key,) in packed]
        self._connection.executemany("DELETE FROM entries WHERE directory = ? AND key = ?", places)
        self._connection.executemany("DELETE FROM sources WHERE key = ?", packed)

    def put_directory(
        self, scanned: DirectoryScan, rows: Sequence[EntryRow], state: DirectoryState
    ) -> None:
        """What a directory holds now.

        Args:
            scanned: all its files.
            rows: those of its entries that are new or changed.
            state: to compare with next time; without mtime where it may change again unnoticed.
        """
        number = self._id("directories", (os.fsencode(scanned.path),), ("path",))
        here = {pack_key(facts.key) for facts in scanned.entries if facts.key is not None}
        known = self._connection.execute("SELECT key FROM entries WHERE directory = ?", (number,))
        self.remove(unpack_key(key) for (key,) in known.fetchall() if key not in here)
        self.put(rows)
        self._put_foreign(number, scanned.foreign)
        self.directories.keep(number, state)

    def _put_foreign(self, number: int, files: Iterable[FileFacts]) -> None:
        self._connection.execute("DELETE FROM foreign_files WHERE directory = ?", (number,))
        self._connection.executemany(
            "INSERT INTO foreign_files VALUES (?, ?, ?)",
            [(number, os.fsencode(file.path), file.size_bytes) for file in files],
        )

    def drop_directories(self, paths: Iterable[str]) -> None:
        """Forget directories that are gone, with all that was in them."""
        for path in paths:
            self._drop_directory(path)

    def _drop_directory(self, path: str) -> None:
        number = self._id("directories", (os.fsencode(path),), ("path",))
        for statement in (
            "DELETE FROM entries WHERE directory = ?",
            "DELETE FROM foreign_files WHERE directory = ?",
            "DELETE FROM directories WHERE id = ?",
        ):
            self._connection.execute(statement, (number,))
        self._ids.pop(("directories", (os.fsencode(path),)), None)

    def mark_used(self, uses: Mapping[str, int]) -> None:
        """Set when entries were used, nanoseconds since 1970 by key."""
        self._connection.executemany(
            "UPDATE entries SET used = ? WHERE directory = ? AND key = ? AND used <> ?",
            [(ns, self._directory_of(key), pack_key(key), ns) for key, ns in uses.items()],
        )

    def path_of(self, key: str) -> str:
        """Path of the entry of a key that the database holds.

        Raises:
            sqlite3.DatabaseError: no entry can have that key: the file is not ours.
        """
        try:
            return self._naming.path_of(key)
        except ValueError as error:
            raise sqlite3.DatabaseError(f"the key of no entry: {error}") from error

    def select(self, tail: str = "", parameters: Sequence[object] = ()) -> Iterator[EntryRow]:
        """Rows; `tail` is SQL after the joins, made of our own text and question marks only."""
        for row in self._connection.execute(f"{_SELECT} {tail}", parameters):
            check_types(row, _TYPES)
            try:
                yield self._row(row)
            except _BROKEN_ROWS as error:
                raise sqlite3.DatabaseError(f"a row that makes no sense: {error}") from error

    def totals(self) -> Totals:
        """Sums over all rows."""
        row = self._connection.execute(_TOTALS).fetchone()
        check_types(row, (int, int, int))
        return Totals(row[0], row[1], row[2] - self.shared_bytes())

    def shared_bytes(self) -> int:
        """Allocated bytes that a plain sum counts more than once."""
        rows = self._connection.execute(
            "SELECT ifnull(sum(extra), 0) FROM (SELECT (count(*) - 1) * max(allocated) AS extra"
            " FROM entries WHERE links > 1 GROUP BY inode)"
        )
        return int(rows.fetchone()[0])

    def foreign_bytes(self) -> int:
        """Bytes of what is no entry and not ours, as last seen."""
        rows = self._connection.execute("SELECT ifnull(sum(bytes), 0) FROM foreign_files")
        return int(rows.fetchone()[0])

    def _values(self, row: EntryRow) -> tuple[object, ...]:
        label = (row.stage, row.kind, row.model, row.finding)
        tensors = json.dumps(row.tensors, separators=(",", ":"))
        return (
            self._directory_of(row.key),
            pack_key(row.key),
            self._id("labels", label, ("stage", "kind", "model", "finding")),
            row.size_bytes,
            row.allocated_bytes,
            row.used_ns,
            row.age_from_seconds,
            row.created_seconds is not None,
            signed(row.inode),
            row.links,
            row.num_tokens,
            self._id("tensors", (tensors,), ("value",)),
            None if row.source_sha256 is None else pack_key(row.source_sha256),
        )

    def _directory_of(self, key: str) -> int:
        path = self.path_of(key).rpartition("/")[0]
        return self._id("directories", (os.fsencode(path),), ("path",))

    def _id(self, table: str, values: tuple[Any, ...], columns: tuple[str, ...]) -> int:
        """The number of a value, given at its first use."""
        number = self._ids.get((table, values))
        if number is None:
            where = " AND ".join(f"{column} IS ?" for column in columns)
            query = f"SELECT id FROM {table} WHERE {where}"  # noqa: S608  our own names
            found = self._connection.execute(query, values).fetchone()
            number = found[0] if found else self._insert(table, values, columns)
            self._ids[table, values] = number
        return number

    def _insert(self, table: str, values: tuple[Any, ...], columns: tuple[str, ...]) -> int:
        if table == "directories":  # never read so far
            columns = (*columns, "mtime_ns", "named_ns", "changed_ns", "inode")
            values = (*values, 0, 0, 0, 0)
        marks = ",".join("?" * len(values))
        cursor = self._connection.execute(
            f"INSERT INTO {table} ({','.join(columns)}) VALUES ({marks})",  # noqa: S608  as above
            values,
        )
        return cursor.lastrowid or 0

    def _row(self, values: Sequence[Any]) -> EntryRow:
        key = unpack_key(values[0])
        tensors = json.loads(values[12])
        return EntryRow(
            key=key,
            path=self.path_of(key),
            size_bytes=values[1],
            allocated_bytes=values[2],
            used_ns=values[3],
            inode=values[4] % 2**64,
            links=values[5],
            created_seconds=values[6] if values[7] else None,
            stage=values[8],
            kind=values[9],
            model=values[10],
            num_tokens=values[11],
            tensors=tuple(TensorShape(name, dtype, tuple(shape)) for name, dtype, shape in tensors),
            source_sha256=None if values[13] is None else unpack_key(values[13]),
            finding=values[14],
        )
