"""An open index file that goes on in memory when it breaks."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, TypeVar

from vcache_cli.store.index_schema import Database, index_path, move_aside, new_in_memory, save_copy
from vcache_cli.store.index_values import check_types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import UnionType
    from typing import Any, Literal

    from vcache_cli.store.index_values import Packed
    from vcache_cli.store.meta import StoreRoot

    Types = tuple[type | UnionType, ...]

__all__ = ["IndexFile", "checked_rows"]

T = TypeVar("T")


class IndexFile:
    """Reading and writing a database that may break at any time. One thread."""

    def __init__(self, root: StoreRoot, database: Database) -> None:
        self._root = root
        self._use(database)

    def _use(self, database: Database) -> None:
        self._database = database
        self._connection = database.connection
        self._take(database.connection)

    def _take(self, connection: sqlite3.Connection) -> None:
        """Use this connection from now on; for subclasses."""

    def _forget_ids(self) -> None:
        """What was numbered in a transaction is not there; for subclasses."""

    @property
    def state(self) -> Literal["ok", "rebuilt", "memory"]:
        """``ok`` as found, ``rebuilt`` begun anew, ``memory`` kept by no file."""
        return self._database.state

    def note(self, name: str) -> str | None:
        """A text remembered under `name`."""
        sql = "SELECT value FROM notes WHERE name = ?"
        row = self._ask(lambda: self._connection.execute(sql, (name,)).fetchone(), None)
        return str(row[0]) if row else None

    def set_note(self, name: str, value: str | None) -> None:
        """Remember a text, or forget it."""
        if value is None:
            sql, values = "DELETE FROM notes WHERE name = ?", [name]
        else:
            sql, values = "INSERT OR REPLACE INTO notes VALUES (?, ?)", [name, value]
        self._transact(lambda: self._connection.execute(sql, values))

    def query(
        self, sql: str, parameters: Sequence[object] = (), *, types: Types
    ) -> list[tuple[Any, ...]]:
        """All rows of a query of ours, of those types; empty where the index broke."""
        self.commit()
        nothing: list[tuple[Any, ...]] = []
        return self._ask(
            lambda: checked_rows(self._connection.execute(sql, parameters), types), nothing
        )

    def stream(
        self, sql: str, parameters: Sequence[object] = (), *, types: Types
    ) -> Iterator[tuple[Any, ...]]:
        """Rows of a query of ours, one at a time; they end early where the index breaks.

        The first column is a key. A row of other types, or of a key that no entry can have, is
        left out, and the index is given up at the end.
        """
        self.commit()
        damage: sqlite3.DatabaseError | None = None
        try:
            for row in self._connection.execute(sql, parameters):
                try:
                    check_types(row, types)
                    self._check_key(row[0])
                except sqlite3.DatabaseError as error:
                    damage = error
                    continue
                yield row
            if damage is not None:
                raise damage
        except sqlite3.DatabaseError as error:
            self._give_up(error)
            self._refill()

    def commit(self) -> None:
        """Write what is pending; for subclasses."""

    def _check_key(self, key: Packed) -> None:
        """Raise `sqlite3.DatabaseError` for a key that no entry can have; for subclasses."""

    def _end(self) -> None:
        """Close; where the file itself could not be worked in, put a copy in its place."""
        save_copy(self._database)
        self._connection.close()

    def _transact(self, write: Callable[[], object]) -> None:
        """Run `write` in one transaction; where that fails, nothing of it is kept."""
        try:
            self._transaction(write)
        except sqlite3.DatabaseError as error:
            if not _is_passing(error):
                self._give_up(error)

    def _transaction(self, write: Callable[[], object]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._forget_ids()  # another process may have dropped what they number
        try:
            write()
            self._connection.execute("COMMIT")
        except BaseException:
            self._forget_ids()
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _ask(self, lookup: Callable[[], T], otherwise: T) -> T:
        """What `lookup` says; where the file breaks under it, what it says in memory."""
        for _ in range(2):
            try:
                return lookup()
            except sqlite3.DatabaseError as error:
                self._give_up(error)
                self._refill()
        return otherwise

    def _refill(self) -> None:
        """Fill an index that begins anew in memory; for subclasses."""

    def _give_up(self, error: sqlite3.DatabaseError) -> None:
        """Go on in memory: with what was there, or anew where the file is damaged."""
        if isinstance(error, sqlite3.ProgrammingError):
            raise error
        memory = new_in_memory()
        with closing(self._connection):
            if _is_passing(error):
                with suppress(sqlite3.Error):
                    self._connection.backup(memory)
        if self._database.state != "memory" and not _is_passing(error):
            move_aside(index_path(self._root.path))
        self._use(Database(memory, "memory"))


def _is_passing(error: sqlite3.DatabaseError) -> bool:
    """True where the file is sound but cannot take this now: locked, full, read-only."""
    if not isinstance(error, sqlite3.OperationalError):
        return False
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
    }


def checked_rows(rows: Iterable[tuple[Any, ...]], types: Types) -> list[tuple[Any, ...]]:
    """All of `rows`.

    Raises:
        sqlite3.DatabaseError: a value is of another type; see `check_types`.
    """
    found = list(rows)
    for row in found:
        check_types(row, types)
    return found
