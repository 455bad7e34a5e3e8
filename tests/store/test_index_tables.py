from __future__ import annotations

import sqlite3
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.digest import digest_bytes
from vcache_cli.store.index_entries import EntryTable
from vcache_cli.store.index_schema import new_in_memory
from vcache_cli.store.rows import EntryRow
from vcache_cli.targets import NativeLayout

Change = Callable[[EntryTable], None]

LAYOUT = NativeLayout()
KEYS = [digest_bytes(bytes([number])) for number in range(6)]
SMALL = st.integers(0, 9)
SUMMED = """
SELECT label, created >> 12, count(*), sum(bytes), sum(allocated), max(used)
FROM entries GROUP BY 1, 2 ORDER BY 1, 2
"""
KEPT = """
SELECT label, period, entries, bytes, allocated, ifnull(used, (
    SELECT max(entries.used) FROM entries
    WHERE entries.label = sums.label AND created >> 12 = period))
FROM sums ORDER BY 1, 2
"""


@st.composite
def rows(draw: st.DrawFn) -> EntryRow:
    key = draw(st.sampled_from(KEYS))
    return EntryRow(
        key=key,
        path=LAYOUT.path_of(key),
        size_bytes=draw(SMALL),
        allocated_bytes=draw(SMALL),
        used_ns=draw(SMALL),
        inode=1,
        created_seconds=draw(st.sampled_from([-1, 0, 4095, 4096, 10**9])),
        model=draw(st.sampled_from(["a", "b"])),
    )


def put(row: EntryRow) -> Change:
    return lambda table: table.put([row])


def remove(key: str) -> Change:
    return lambda table: table.remove([key])


def use(key: str, used_ns: int) -> Change:
    return lambda table: table.mark_used({key: used_ns})


def drop(key: str) -> Change:
    return lambda table: table.drop_directories([LAYOUT.path_of(key).rpartition("/")[0]])


ANY_KEY = st.sampled_from(KEYS)
CHANGES = st.one_of(
    rows().map(put),
    ANY_KEY.map(remove),
    st.builds(use, ANY_KEY, SMALL),
    ANY_KEY.map(drop),
)


def told(connection: sqlite3.Connection, sql: str) -> list[tuple[int | None, ...]]:
    return connection.execute(sql).fetchall()


@given(st.lists(CHANGES, max_size=30))
def test_the_sums_are_those_of_the_rows_after_any_changes(changes: list[Change]) -> None:
    connection = new_in_memory()
    table = EntryTable(connection, LAYOUT)
    for change in changes:
        change(table)
        assert told(connection, KEPT) == told(connection, SUMMED)
    totals = table.totals()
    counted = "SELECT count(*), ifnull(sum(bytes), 0), ifnull(sum(allocated), 0) FROM entries"
    assert [(totals.entries, totals.logical_bytes, totals.allocated_bytes)] == told(
        connection, counted
    )


def test_the_latest_use_is_kept_while_the_entry_that_had_it_is_there() -> None:
    connection = new_in_memory()
    table = EntryTable(connection, LAYOUT)
    for number, key in enumerate(KEYS[:3]):
        table.put([EntryRow(key, LAYOUT.path_of(key), 1, 1, number, 1, created_seconds=7)])
    kept = "SELECT used FROM sums"
    table.remove([KEYS[0]])
    assert told(connection, kept) == [(2,)]
    table.mark_used({KEYS[1]: 5})
    assert told(connection, kept) == [(5,)]
    table.remove([KEYS[1]])
    assert told(connection, kept) == [(None,)]
    table.remove([KEYS[2]])
    assert told(connection, kept) == []
