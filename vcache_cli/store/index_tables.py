"""The index's tables, and the triggers that keep its sums true to its rows."""

from __future__ import annotations

from typing import Final

__all__ = ["PERIOD_BITS", "STATEMENTS", "VERSION"]

VERSION: Final = 2
"""`user_version`; any other one is moved aside and rebuilt."""
PERIOD_BITS: Final = 12
"""Entries are summed up by the 4,096 seconds in which they came to be: ``created >> 12``."""

_TABLES: Final = """
CREATE TABLE directories (
    id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, mtime_ns INTEGER NOT NULL,
    named_ns INTEGER NOT NULL, changed_ns INTEGER NOT NULL, inode INTEGER NOT NULL);
CREATE TABLE labels (
    id INTEGER PRIMARY KEY, stage TEXT, kind TEXT, model TEXT, finding TEXT);
CREATE TABLE tensors (id INTEGER PRIMARY KEY, value TEXT NOT NULL UNIQUE);
CREATE TABLE entries (
    directory INTEGER NOT NULL, key BLOB NOT NULL, label INTEGER NOT NULL,
    bytes INTEGER NOT NULL, allocated INTEGER NOT NULL, used INTEGER NOT NULL,
    created INTEGER NOT NULL, dated INTEGER NOT NULL, inode INTEGER NOT NULL,
    links INTEGER NOT NULL, tokens INTEGER, tensors INTEGER NOT NULL, source BLOB,
    PRIMARY KEY (directory, key)) WITHOUT ROWID;
CREATE INDEX entries_by_use ON entries (used, bytes);
CREATE INDEX entries_by_label ON entries (label, created, bytes, allocated, used);
CREATE INDEX entries_linked ON entries (inode, allocated) WHERE links > 1;
CREATE TABLE sums (
    label INTEGER NOT NULL, period INTEGER NOT NULL, entries INTEGER NOT NULL,
    bytes INTEGER NOT NULL, allocated INTEGER NOT NULL, used INTEGER,
    PRIMARY KEY (label, period)) WITHOUT ROWID;
CREATE TABLE foreign_files (
    directory INTEGER NOT NULL, path BLOB NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (directory, path)) WITHOUT ROWID;
CREATE TABLE unchanged (
    path BLOB PRIMARY KEY, stat BLOB NOT NULL, source BLOB NOT NULL, kind TEXT NOT NULL
    ) WITHOUT ROWID;
CREATE TABLE known (
    source BLOB NOT NULL, context BLOB NOT NULL, key BLOB NOT NULL,
    PRIMARY KEY (source, context)) WITHOUT ROWID;
CREATE TABLE failures (
    source BLOB NOT NULL, context BLOB NOT NULL, stage TEXT NOT NULL, kind TEXT NOT NULL,
    message TEXT NOT NULL, hint TEXT NOT NULL, PRIMARY KEY (source, context)) WITHOUT ROWID;
CREATE TABLE sources (
    key BLOB NOT NULL, path BLOB NOT NULL, PRIMARY KEY (key, path)) WITHOUT ROWID;
CREATE INDEX sources_by_path ON sources (path);
CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"""

# `used` is the latest use of a period's entries. It is null where the entry that had it is gone,
# which only the rows can tell then: a maximum cannot be taken back.
_ADD: Final = f"""
    INSERT INTO sums
        VALUES (new.label, new.created >> {PERIOD_BITS}, 1, new.bytes, new.allocated, new.used)
        ON CONFLICT (label, period) DO UPDATE SET
            entries = entries + 1, bytes = bytes + excluded.bytes,
            allocated = allocated + excluded.allocated, used = max(used, excluded.used);
"""  # noqa: S608  our own number
_TAKE: Final = f"""
    UPDATE sums SET
        entries = entries - 1, bytes = bytes - old.bytes, allocated = allocated - old.allocated,
        used = CASE WHEN old.used < used THEN used END
        WHERE label = old.label AND period = old.created >> {PERIOD_BITS};
    DELETE FROM sums
        WHERE label = old.label AND period = old.created >> {PERIOD_BITS} AND entries <= 0;
"""  # noqa: S608  as above
_CHANGE: Final = f"""
    UPDATE sums SET
        bytes = bytes - old.bytes + new.bytes,
        allocated = allocated - old.allocated + new.allocated,
        used = CASE WHEN new.used >= used THEN new.used WHEN old.used < used THEN used END
        WHERE label = old.label AND period = old.created >> {PERIOD_BITS};
"""  # noqa: S608  as above
_STAYS: Final = (
    f"new.label = old.label AND new.created >> {PERIOD_BITS} = old.created >> {PERIOD_BITS}"
)
_ON_ENTRIES: Final = {
    "entry_added AFTER INSERT ON entries": _ADD,
    "entry_removed AFTER DELETE ON entries": _TAKE,
    f"entry_changed AFTER UPDATE ON entries WHEN {_STAYS}": _CHANGE,
    f"entry_moved AFTER UPDATE ON entries WHEN NOT ({_STAYS})": _TAKE + _ADD,
}

STATEMENTS: Final = (
    *_TABLES.split(";"),
    *(f"CREATE TRIGGER {when} BEGIN {then} END" for when, then in _ON_ENTRIES.items()),
)
"""What makes an empty file an index, in order."""
