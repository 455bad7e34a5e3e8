"""The index as a database: its tables, and how one is opened whatever state its file is in."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from vcache_cli.store.filesystem import filesystem_of
from vcache_cli.store.index_tables import STATEMENTS, VERSION
from vcache_cli.store.owners import is_planted

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Final, Literal

    from vcache_cli.store.meta import StoreRoot

__all__ = [
    "Database",
    "index_path",
    "move_aside",
    "new_in_memory",
    "open_database",
    "save_copy",
]

_BUSY_SECONDS: Final = 5.0
_SCHEMA: Final = "SELECT type, name, tbl_name, sql FROM sqlite_master"


@dataclass(slots=True)
class Database:
    """An open index."""

    connection: sqlite3.Connection
    state: Literal["ok", "rebuilt", "memory"]
    """``ok`` as found; ``rebuilt`` new in its file; ``memory`` not kept after this process."""
    save_to: Path | None = None
    """Where a copy is put at the end, where the file itself cannot be worked in."""


def index_path(root: Path) -> Path:
    """Where the index of the store at `root` lies."""
    return root / ".vcache" / "index.sqlite"


def open_database(root: StoreRoot, *, write: bool) -> Database:
    """The index of a store, in whatever state its file is; never raises for it.

    A file that cannot be worked in (a read-only store, a network filesystem, another process
    that holds it) is copied into memory; one that is damaged or of another version is moved
    aside, or ignored where that is not possible.
    """
    path = index_path(root.path)
    if _is_strange(path):
        move_aside(path)  # SQLite would follow a link, and change what lies outside of the store
    if is_planted(root.path) or _is_strange(path):
        return Database(new_in_memory(), "memory")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        return Database(_copy_into_memory(path), "memory")
    if filesystem_of(path.parent).network:
        return Database(_copy_into_memory(path), "memory", save_to=path if write else None)
    for _ in range(2):
        try:
            return _open_file(path, root.meta.modes.lock)
        except sqlite3.OperationalError:  # locked, a full disk, or no permission
            return Database(_copy_into_memory(path), "memory")
        except sqlite3.DatabaseError:
            move_aside(path)  # and begin anew
    return Database(new_in_memory(), "memory")


def _is_strange(path: Path) -> bool:
    """True for a link, a folder, a pipe: anything but a regular file or nothing."""
    try:
        return not stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def move_aside(path: Path) -> None:
    """Keep one damaged index as evidence, under another name; best effort."""
    with suppress(OSError):
        os.replace(path, path.with_suffix(".damaged"))
    for suffix in ("-wal", "-shm"):
        with suppress(OSError):
            os.unlink(f"{path}{suffix}")


def _open_file(path: Path, mode: int) -> Database:
    with suppress(OSError):  # there already, or SQLite will say why not
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        os.fchmod(fd, mode)
        os.close(fd)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -32768")  # KiB: a rebuild touches every page
        return Database(connection, "rebuilt" if _create_tables(connection) else "ok")
    except UnicodeDecodeError as error:  # SQLite's message quotes what is damaged
        connection.close()
        raise sqlite3.DatabaseError("the index has a damaged schema") from error
    except sqlite3.Error:
        connection.close()
        raise


def _create_tables(connection: sqlite3.Connection) -> bool:
    """True where the database was empty.

    Raises:
        sqlite3.DatabaseError: damaged, or of another version.
    """
    if _version(connection) == VERSION:
        _check_schema(connection)
        connection.execute("SELECT directory, key, source FROM entries LIMIT 1").fetchall()
        return False
    connection.execute("BEGIN IMMEDIATE")  # another process may be creating it
    try:
        if (found := _version(connection)) == 0 and _is_empty(connection):
            for statement in STATEMENTS:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        elif found != VERSION:
            raise sqlite3.DatabaseError(f"index of version {found}, expected {VERSION}")
    except sqlite3.Error:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return found == 0


def _check_schema(connection: sqlite3.Connection) -> None:
    """Refuse all but our own tables: a trigger or a view may run for ever, at any statement.

    Raises:
        sqlite3.DatabaseError: another schema, or none that can be read.
    """
    expected = _own_schema()
    found = set(connection.execute(_SCHEMA).fetchmany(len(expected) + 1))
    if found != expected:
        raise sqlite3.DatabaseError("the index has tables that are not ours")


@cache
def _own_schema() -> frozenset[tuple[Any, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in STATEMENTS:
            connection.execute(statement)
        return frozenset(connection.execute(_SCHEMA).fetchall())


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _is_empty(connection: sqlite3.Connection) -> bool:
    return not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()


def new_in_memory() -> sqlite3.Connection:
    """An empty index that no file holds."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("PRAGMA trusted_schema = OFF")
    _create_tables(connection)
    return connection


def _copy_into_memory(path: Path) -> sqlite3.Connection:
    """What the file holds, or an empty index where that is nothing whole.

    A file with a write-ahead log is not taken: without it, its pages are of different moments.
    """
    memory = sqlite3.connect(":memory:", isolation_level=None)
    try:
        wal_bytes = os.stat(f"{path}-wal").st_size
    except OSError:
        wal_bytes = 0
    if wal_bytes or not path.is_file():
        memory.close()
        return new_in_memory()
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)) as file:
            file.backup(memory)
        memory.execute("PRAGMA trusted_schema = OFF")
        _create_tables(memory)
    except (sqlite3.Error, UnicodeDecodeError):  # see `_open_file`
        memory.close()
        return new_in_memory()
    return memory


def save_copy(database: Database) -> None:
    """Put what is in memory in place of the file, whole or not at all; best effort."""
    if database.save_to is None:
        return
    temporary = database.save_to.with_name(f"index.{os.getpid()}.new")
    try:
        with closing(sqlite3.connect(temporary)) as file:
            database.connection.backup(file)
        os.replace(temporary, database.save_to)
    except (OSError, sqlite3.Error):
        with suppress(OSError):
            os.unlink(temporary)
