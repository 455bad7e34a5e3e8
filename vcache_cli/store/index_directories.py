"""The directories in one open index: what they were like when their rows were read."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from vcache_cli.store.directory_state import DirectoryState
from vcache_cli.store.index_values import HASH_BYTES, check_types, unpack_hashes, unpack_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Final

__all__ = ["DirectoryTable", "Names", "Remembered"]

_COUNT: Final = "SELECT count(*) FROM entries JOIN directories ON directory = id WHERE path = ?"
_HERE: Final = "FROM entries JOIN directories ON directory = id WHERE path = ? AND used"
_IS_HASH: Final = f"(key >= x'' AND length(key) = {HASH_BYTES})"  # no text is as great as a blob
_HASHES: Final = f"SELECT CAST(group_concat(key, '') AS BLOB) {_HERE}"
_OTHERS: Final = f"SELECT key {_HERE}"
_KEEP: Final = """
UPDATE directories SET named_ns = ?1, changed_ns = ?2, inode = ?3,
    mtime_ns = CASE WHEN inode = ?3 AND changed_ns = ?2 THEN mtime_ns ELSE 0 END
WHERE path = ?4 AND (SELECT count(*) FROM entries WHERE directory = id) = ?5
"""


class Remembered(NamedTuple):
    """A directory as it was when its rows were read."""

    id: int
    state: DirectoryState
    """Without mtime where it has to be read again in any case."""


class Names(NamedTuple):
    """A directory in which every row had its file."""

    state: DirectoryState
    rows: int
    """How many these were."""


class DirectoryTable:
    """One thread; the caller opens and ends transactions around writes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def known(self) -> dict[str, Remembered]:
        """Every directory read before, by its path below the root."""
        rows = self._connection.execute(
            "SELECT path, id, mtime_ns, changed_ns, inode FROM directories"
        )
        return {_path(row): Remembered(row[1], DirectoryState(*row[2:])) for row in rows}

    def keep(self, number: int, state: DirectoryState) -> None:
        """That the rows are what a directory of this state holds; no mtime: they may not be."""
        self._connection.execute(
            "UPDATE directories SET mtime_ns = ?1, named_ns = ?1, changed_ns = ?2, inode = ?3"
            " WHERE id = ?4",
            (*state, number),
        )

    def keep_names(self, names: Mapping[str, Names]) -> None:
        """That every row has its file while a directory is in this state, by path.

        Nothing is kept of one whose rows are other ones by now.
        """
        self._connection.executemany(
            _KEEP,
            [(*each.state, os.fsencode(path), each.rows) for path, each in names.items()],
        )

    def forget(self, paths: Iterable[str]) -> None:
        """Nothing is known of them any more."""
        names = [(os.fsencode(path),) for path in paths]
        self._connection.executemany(
            "UPDATE directories SET mtime_ns = 0, named_ns = 0 WHERE path = ?", names
        )

    def doubt(self, numbers: Iterable[object]) -> None:
        """Rows came whose files may be gone again."""
        self._connection.executemany(
            "UPDATE directories SET mtime_ns = 0, named_ns = 0 WHERE id = ? AND named_ns != 0",
            [(number,) for number in numbers],
        )

    def has_names(self, path: str, state: DirectoryState) -> bool:
        """True where every row of the directory has its file while it is in that state."""
        row = self._connection.execute(
            "SELECT named_ns, changed_ns, inode FROM directories WHERE path = ?",
            (os.fsencode(path),),
        ).fetchone()
        return state.mtime_ns != 0 and row == state

    def count_in(self, path: str) -> int:
        """Number of rows of a directory."""
        row = self._connection.execute(_COUNT, (os.fsencode(path),)).fetchone()
        return int(row[0])

    def used_within(self, path: str, begin_ns: int, end_ns: int) -> list[str]:
        """Keys of the entries of a directory that were used then."""
        return self._keys(path, "BETWEEN ? AND ?", begin_ns, end_ns)

    def used_otherwise(self, path: str, begin_ns: int, end_ns: int) -> list[str]:
        """Keys of its other entries."""
        return self._keys(path, "NOT BETWEEN ? AND ?", begin_ns, end_ns)

    def _keys(self, path: str, when: str, begin_ns: int, end_ns: int) -> list[str]:
        place = (os.fsencode(path), begin_ns, end_ns)
        asked = self._connection.execute(f"{_HASHES} {when} AND {_IS_HASH}", place)
        others = self._connection.execute(f"{_OTHERS} {when} AND NOT {_IS_HASH}", place)
        return unpack_hashes(asked.fetchone()[0] or b"") + [unpack_key(key) for (key,) in others]


def _path(row: Sequence[Any]) -> str:
    """Path below the root of a row of `directories`; nothing that leads out of it."""
    check_types(row, (bytes, int, int, int, int))
    path = os.fsdecode(row[0])
    if path and any(part in {"", ".", ".."} for part in path.split("/")):
        raise sqlite3.DatabaseError("a directory that is not below the root")
    return path
