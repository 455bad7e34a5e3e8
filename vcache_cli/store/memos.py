"""What earlier runs learnt of sources: hints that save reading and decoding, never proof."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from vcache_cli.items import FileStat, Kind
from vcache_cli.outcome import Failure
from vcache_cli.protocols import Recall, Seen
from vcache_cli.store.index_values import Packed, check_types, pack_key, unpack_key
from vcache_cli.store.memo_columns import STAT, unchanged_digests

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping, Sequence
    from typing import Final

    from vcache_cli.folders import FolderFiles

__all__ = ["SETTLE_NS", "MemoTable"]

SETTLE_NS: Final = 2_000_000_000
"""A file changed later than this before now may change again without a new mtime."""

_MASK: Final = 2**64 - 1
_FAR: Final = 2**63 - 1
_CHUNK: Final = 512

_ROWS: Final = "SELECT path, stat, source, kind FROM unchanged"
_BETWEEN: Final = f"{_ROWS} WHERE path BETWEEN ? AND ? LIMIT ?"
_UNCHANGED: Final = "SELECT stat, source, kind FROM unchanged WHERE path = ?"
_KNOWN: Final = "SELECT key FROM known WHERE source = ? AND context = ?"
_FAILED: Final = "SELECT stage, kind, message, hint FROM failures WHERE source = ? AND context = ?"
_KINDS: Final = {kind.value: kind for kind in Kind}


_Row = tuple[bytes, bytes, Packed, str]


class MemoTable:
    """The memos of one open index. One thread; new ones are found before they are written."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._unchanged: dict[bytes, tuple[bytes, Packed, str]] = {}
        self._known: dict[tuple[Packed, Packed], Packed] = {}
        self._failures: dict[tuple[Packed, Packed], tuple[str, str, str, str]] = {}

    @property
    def pending(self) -> int:
        """Memos that are not written yet."""
        return len(self._unchanged) + len(self._known) + len(self._failures)

    def unchanged(self, path: str, stat: FileStat) -> Seen | None:
        """What was learnt of that path, where its stat is still the same."""
        name = os.fsencode(path)
        row = self._unchanged.get(name)
        row = row or self.connection.execute(_UNCHANGED, (name,)).fetchone()
        if row is None or row[0] != _packed_stat(stat):
            return None
        return _seen(row[1], row[2])

    def recall(
        self, files: Sequence[tuple[str, FileStat]], context: str | None
    ) -> list[Recall | None]:
        """Many files at once: `unchanged` and, with a context, `known` of each, in order."""
        found: list[Recall | None] = []
        packed = None if context is None else pack_key(context)
        for start in range(0, len(files), _CHUNK):
            part = files[start : start + _CHUNK]
            names = [os.fsencode(path) for path, _ in part]
            rows = self._rows_of(names)
            kept = [
                row if (row := rows.get(name)) and row[1] == stat else None
                for name, stat in zip(names, _packed_stats(part), strict=True)
            ]
            keys = {} if packed is None else self._keys_of({row[2] for row in kept if row}, packed)
            found.extend([_recall(row, keys) if row else None for row in kept])
        return found

    def digests_of(self, files: FolderFiles) -> Sequence[str]:
        """Content of each file that `unchanged` calls a picture; empty of any other."""
        if not self._unchanged and (found := unchanged_digests(self.connection, files)):
            return found
        prefix, facts = files.absolute_prefix, map(FileStat._make, files.facts)
        named = [(prefix + name, stat) for name, stat in zip(files.names, facts, strict=True)]
        return [_picture(recall) if recall else "" for recall in self.recall(named, None)]

    def known_among(self, digests: Sequence[str], context: str) -> Sequence[str]:
        """`known` of each content, in order; empty where it is not."""
        keys: dict[Packed, Packed] = {}
        packed, sources = pack_key(context), [*map(pack_key, digests)]
        for start in range(0, len(sources), _CHUNK):
            keys.update(self._keys_of(set(sources[start : start + _CHUNK]), packed))
        return [unpack_key(key) if (key := keys.get(each)) else "" for each in sources]

    def _rows_of(self, names: Sequence[bytes]) -> dict[bytes, _Row]:
        """What is remembered under each name, and maybe under others."""
        # Files of a folder lie side by side: reading from the first to the last is faster, unless
        # there are many between them that were not asked for.
        between = (min(names), max(names), 2 * len(names))
        found = self.connection.execute(_BETWEEN, between).fetchall()
        if len(found) == between[2]:
            marks = ",".join("?" * len(names))
            found = self.connection.execute(f"{_ROWS} WHERE path IN ({marks})", names).fetchall()
        rows: dict[bytes, _Row] = {row[0]: row for row in found}
        if self._unchanged:
            for name in names:
                if pending := self._unchanged.get(name):
                    rows[name] = (name, *pending)
        return rows

    def _keys_of(self, sources: Collection[Packed], context: Packed) -> dict[Packed, Packed]:
        """The key that is remembered for each content."""
        marks = ",".join("?" * len(sources))
        sql = f"SELECT source, key FROM known WHERE context = ? AND source IN ({marks})"  # noqa: S608  as above
        keys: dict[Packed, Packed] = dict(self.connection.execute(sql, (context, *sources)))
        if self._known:
            pending = {source: self._known.get((source, context)) for source in sources}
            keys.update({source: key for source, key in pending.items() if key is not None})
        return keys

    def known(self, source_sha256: str, context: str) -> str | None:
        """The entry key of known content."""
        where = (pack_key(source_sha256), pack_key(context))
        key = self._known.get(where)
        if key is None:
            row = self.connection.execute(_KNOWN, where).fetchone()
            key = row[0] if row else None
        return None if key is None else unpack_key(key)

    def failed(self, source_sha256: str, context: str) -> Failure | None:
        """The permanent failure that this content met before."""
        where = (pack_key(source_sha256), pack_key(context))
        row = self._failures.get(where) or self.connection.execute(_FAILED, where).fetchone()
        if row is None:
            return None
        check_types(row, (str, str, str, str))
        return Failure(row[0], row[1], row[2], row[3])

    def remember_unchanged(self, path: str, stat: FileStat, seen: Seen, now_ns: int) -> bool:
        """True where it was recorded: not while the file may change again unnoticed.

        Args:
            path: as the operating system spells it.
            stat: from before the file was read.
            seen: what was read.
            now_ns: a time, since 1970, not later than that of `stat`.
        """
        if stat.mtime_ns > now_ns - SETTLE_NS:
            return False
        row = (_packed_stat(stat), pack_key(seen.source_sha256), seen.kind.value)
        self._unchanged[os.fsencode(path)] = row
        return True

    def remember_known(self, source_sha256: str, context: str, key: str) -> None:
        """The entry key of that content under that context."""
        self._known[pack_key(source_sha256), pack_key(context)] = pack_key(key)

    def remember_failure(self, source_sha256: str, context: str, failure: Failure) -> None:
        """A permanent failure of that content; a transient one is not recorded."""
        if not failure.transient:
            row = (failure.stage, failure.kind, failure.message, failure.hint)
            self._failures[pack_key(source_sha256), pack_key(context)] = row

    def forget_failures(self) -> None:
        """All of them, so that every item is tried again."""
        self._failures.clear()
        self.connection.execute("DELETE FROM failures")

    def write(self) -> None:
        """Put what is pending into the open transaction."""
        self.connection.executemany(
            "INSERT OR REPLACE INTO unchanged VALUES (?, ?, ?, ?)",
            ((name, *row) for name, row in sorted(self._unchanged.items())),
        )
        self.connection.executemany(
            "INSERT OR REPLACE INTO known VALUES (?, ?, ?)",
            ((*where, key) for where, key in self._known.items()),
        )
        self.connection.executemany(
            "INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?, ?)",
            ((*where, *row) for where, row in self._failures.items()),
        )

    def clear(self) -> None:
        """What was pending is written, or given up."""
        self._unchanged.clear()
        self._known.clear()
        self._failures.clear()


def _packed_stats(files: Sequence[tuple[str, FileStat]]) -> list[bytes]:
    try:
        return [STAT.pack(*stat) for _, stat in files]
    except struct.error:
        return [_packed_stat(stat) for _, stat in files]


def _packed_stat(stat: FileStat) -> bytes:
    try:
        return STAT.pack(*stat)
    except struct.error:
        # A time that 64 bits cannot hold is never remembered: no two of them are taken as one.
        size_bytes, *times_ns, inode, device = stat
        mtime_ns, ctime_ns = (max(-_FAR, min(ns, _FAR)) for ns in times_ns)
        return STAT.pack(size_bytes, mtime_ns, ctime_ns, inode & _MASK, device & _MASK)


def _recall(row: _Row, keys: Mapping[Packed, Packed]) -> Recall:
    key = keys.get(row[2]) if keys else None
    return Recall(_seen(row[2], row[3]), None if key is None else unpack_key(key))


def _picture(recall: Recall) -> str:
    return recall.seen.source_sha256 if recall.seen.kind is Kind.IMAGE else ""


def _seen(source: Packed, kind: str) -> Seen:
    digest = source.hex() if type(source) is bytes else unpack_key(source)
    return Seen(digest, _KINDS.get(kind, Kind.OTHER))
