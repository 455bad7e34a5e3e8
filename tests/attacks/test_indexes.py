"""Indexes that someone else wrote: none leads out of the store, hangs, or changes an answer."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.care import DAY, NOW, add, entry, make_store
from vcache_cli.items import FileStat, Kind
from vcache_cli.outcome import Failure
from vcache_cli.protocols import Seen
from vcache_cli.store.index import open_index
from vcache_cli.store.index_schema import index_path
from vcache_cli.store.meta import StoreRoot
from vcache_cli.store.prune import plan_prune
from vcache_cli.store.prune_scope import PruneScope
from vcache_cli.store.query import find_entries, list_entries
from vcache_cli.store.stats import store_stats
from vcache_cli.store.verify import verify_store

SHA, CONTEXT = "ab" * 32, "cd" * 32
ENDLESS = "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n)"
STAT = FileStat(10, 1, 2, 3, 4)
BROKEN = Failure("decode", "truncated", "the file ends early", "")
EVERYTHING = PruneScope(older_than_seconds=0)

ROWS = {
    "sums beyond 64 bits": "UPDATE sums SET bytes = 1 << 62; UPDATE entries SET bytes = 1 << 62",
    "sums of text": "UPDATE sums SET entries = 'many', used = 'late'",
    "a key that leads out": "UPDATE entries SET key = '../../OUT/victim'",
    "a key of no entry": "UPDATE entries SET key = 'request-7'",
    "a number as key": "UPDATE entries SET key = 7",
    "a text as size": "UPDATE entries SET bytes = 'many'",
    "a text as mtime": "UPDATE entries SET used = 'late'",
    "a text as inode": "UPDATE entries SET inode = '%d'",
    "bytes as creation": "UPDATE entries SET created = x'00ff'",
    "sizes beyond 64 bits": "UPDATE entries SET bytes = 9223372036854775807",
    "a label of bytes": "UPDATE labels SET model = x'ff'",
    "a number as source": "UPDATE entries SET source = 7",
    "tensors of no JSON": "UPDATE tensors SET value = '{'",
    "tensors of no list": "UPDATE tensors SET value = '7'",
    "endless tensors": "UPDATE tensors SET value = replace(hex(zeroblob(50000)), '0', '[')",
    "a directory outside": "UPDATE directories SET path = '/', mtime_ns = mtime_ns + 1",
    "a directory above": "UPDATE directories SET path = CAST('../' || id AS BLOB)",
    "a root in itself": "UPDATE directories SET path = CAST('/' AS BLOB) WHERE id = 2",
    "a number as a source's path": "UPDATE sources SET path = 7",
}
SCHEMAS = {
    "a trigger": f"CREATE TRIGGER t BEFORE INSERT ON directories BEGIN SELECT {ENDLESS}; END",
    "a view": f"ALTER TABLE notes RENAME TO n; CREATE VIEW notes AS SELECT {ENDLESS}",
    "a table more": "CREATE TABLE more (a)",
    "an index more": "CREATE INDEX more ON entries (abs(bytes))",
    "a column more": f"ALTER TABLE labels ADD COLUMN more AS ({ENDLESS.replace(ENDLESS, '1')})",
    "a table less": "DROP TABLE failures",
}


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    root = make_store(tmp_path / "store")
    for number in range(3):
        add(root, entry(number))
    for directory in [root.path, *root.path.glob("??")]:
        os.utime(directory, (NOW - 10 * DAY, NOW - 10 * DAY))
    with open_index(root, mode="w") as index:
        index.refresh()
        index.add_source(entry(0).key, "/a")
        index.remember_unchanged("/a", STAT, Seen(SHA, Kind.IMAGE))
        index.remember_known(SHA, CONTEXT, SHA)
        index.remember_failure(SHA, CONTEXT, BROKEN)
    return root


def spoil(root: StoreRoot, sql: str) -> None:
    with closing(sqlite3.connect(index_path(root.path))) as connection:
        try:
            connection.executescript(sql)
        except sqlite3.IntegrityError:  # the same key for each: one will do
            connection.executescript(sql.replace("UPDATE", "UPDATE OR REPLACE"))


@pytest.mark.parametrize("sql", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("command", ["stats", "scan", "ls", "find", "verify", "prune", "size"])
def test_no_row_ends_a_command_or_leads_out_of_the_store(
    root: StoreRoot, command: str, sql: str
) -> None:
    victim = root.path.parent / "OUT" / "victim"
    victim.parent.mkdir()
    victim.write_bytes(b"whole")
    spoil(root, sql)
    if command in {"stats", "scan"}:
        store_stats(root, scan=command == "scan", now=NOW).as_json()
    elif command == "ls":
        list_entries(root, now=NOW).as_json()
    elif command == "find":
        find_entries(root, "/a").as_json()
        find_entries(root, "ff").as_json()
    elif command == "verify":
        assert not verify_store(root, now=NOW).damage
    else:
        scope = EVERYTHING if command == "prune" else PruneScope(max_size_bytes=1)
        plan_prune(root, scope, now=NOW).execute()
    assert victim.read_bytes() == b"whole"


@pytest.mark.parametrize("name", ["a key that leads out", "a number as key", "tensors of no JSON"])
def test_a_listing_is_whole_though_the_index_was_not_ours(root: StoreRoot, name: str) -> None:
    spoil(root, ROWS[name])
    listed = list_entries(root, now=NOW)
    assert {row.key for row in listed.entries} == {entry(number).key for number in range(3)}
    assert index_path(root.path).with_suffix(".damaged").exists()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE known SET key = '../../OUT/victim'",
        "UPDATE known SET key = 7",
        "UPDATE unchanged SET source = 7",
        "UPDATE unchanged SET kind = x'00'",
        "UPDATE failures SET message = x'ff'",
    ],
)
def test_no_memo_ends_a_run(root: StoreRoot, sql: str) -> None:
    spoil(root, sql)
    with open_index(root, mode="w") as index:
        known, seen = index.known(SHA, CONTEXT), index.unchanged("/a", STAT)
        failure, recalled = index.failed(SHA, CONTEXT), index.recall([("/a", STAT)], CONTEXT)
    assert known in {SHA, None}
    assert seen is None or seen.source_sha256 == SHA
    assert failure in {BROKEN, None}
    assert [each and each.key for each in recalled] in ([SHA], [None])


@pytest.mark.parametrize("sql", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("mode", ["r", "w", "network"])
def test_an_index_of_another_schema_is_begun_anew(
    root: StoreRoot, mode: str, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(root, sql)
    if mode == "network":
        monkeypatch.setattr("vcache_cli.store.filesystem._type_name", lambda _path: "nfs4")
    add(root, entry(7))
    with open_index(root, mode="r" if mode == "r" else "w") as index:
        assert index.state == ("memory" if mode == "network" else "rebuilt")
        index.refresh()
        assert index.totals().entries == 4
        assert index.note("name") is None
