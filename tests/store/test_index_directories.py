from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.care import DAY, NOW, add, entry, make_store
from vcache_cli.store.directory_state import DirectoryState
from vcache_cli.store.index import Index, open_index
from vcache_cli.store.index_directories import Names
from vcache_cli.store.index_schema import index_path
from vcache_cli.store.meta import StoreRoot
from vcache_cli.store.rows import FileFacts, read_row

NUMBERS = range(3)


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    """A store whose entries lie in one shard each, none of which changed lately."""
    root = make_store(tmp_path / "store")
    for number in NUMBERS:
        add(root, entry(number))
    for directory in [root.path, *root.path.glob("??")]:
        os.utime(directory, (NOW - 10 * DAY, NOW - 10 * DAY))
    return root


def shard_of(number: int) -> str:
    return entry(number).key[:2]


def state(root: StoreRoot, shard: str) -> DirectoryState:
    return DirectoryState.of(os.stat(root.path / shard))


def knows(index: Index, root: StoreRoot, number: int) -> bool:
    return index.has_names(shard_of(number), state(root, shard_of(number)))


def add_row(index: Index, root: StoreRoot, number: int) -> None:
    """The row of a published entry, as the run that wrote it adds it."""
    path = root.layout.path_of(entry(number).key)
    row = read_row(root, FileFacts.of(path, os.lstat(root.path / path), entry(number).key))
    assert row is not None
    index.add(row)


def test_a_refresh_knows_the_files_of_every_directory_it_read(root: StoreRoot) -> None:
    with open_index(root, mode="w") as index:
        assert not knows(index, root, 0)
        index.refresh()
        assert all(knows(index, root, number) for number in NUMBERS)
        seen = state(root, shard_of(0))
        for field in DirectoryState._fields:
            other = seen._replace(**{field: getattr(seen, field) + 1})
            assert not index.has_names(shard_of(0), other)
        assert not index.has_names("zz", seen)


def test_what_a_run_saw_is_kept_for_the_next(root: StoreRoot) -> None:
    with open_index(root, mode="w") as index:
        for number in NUMBERS:
            add_row(index, root, number)
        index.commit()
        for number in NUMBERS:
            index.keep_names(shard_of(number), Names(state(root, shard_of(number)), 1))
    with open_index(root) as again:
        assert all(knows(again, root, number) for number in NUMBERS)


def test_nothing_is_kept_where_other_rows_came_meanwhile(root: StoreRoot) -> None:
    with open_index(root, mode="w") as index:
        add_row(index, root, 0)
        index.commit()
        index.keep_names(shard_of(0), Names(state(root, shard_of(0)), 2))
        index.commit()
        assert not knows(index, root, 0)


def test_a_row_that_comes_later_may_have_no_file(root: StoreRoot) -> None:
    with open_index(root, mode="w") as index:
        index.refresh()
        add_row(index, root, 0)
        index.commit()
        assert [knows(index, root, number) for number in NUMBERS] == [False, True, True]
        index.keep_names(shard_of(1), Names(state(root, shard_of(1)), 1))
        add_row(index, root, 1)  # written after what was seen
        index.commit()
        assert not knows(index, root, 1)


def test_a_directory_that_is_forgotten_is_read_again(root: StoreRoot) -> None:
    with open_index(root, mode="w") as index:
        index.refresh()
        index.forget_directories([shard_of(0)])
        assert not knows(index, root, 0)
        assert index.refresh().directories_read == 1
        assert knows(index, root, 0)


def test_another_inode_is_read_again_though_its_names_are_known(root: StoreRoot) -> None:
    seen = state(root, shard_of(0))
    other = seen._replace(inode=seen.inode + 1)
    with open_index(root, mode="w") as index:
        index.refresh()
        index.keep_names(shard_of(0), Names(other, 1))
        index.commit()
        assert index.has_names(shard_of(0), other)
        assert index.refresh().directories_read == 1


def test_an_index_in_memory_knows_of_no_file(
    root: StoreRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as that of a network's file system, where changes of others show late."""
    monkeypatch.setattr("vcache_cli.store.filesystem._type_name", lambda _path: "nfs4")
    with open_index(root, mode="w") as index:
        index.refresh()
        assert (index.state, knows(index, root, 0)) == ("memory", False)


def test_columns_of_other_types_say_nothing(root: StoreRoot) -> None:
    with open_index(root, mode="w") as index:
        index.refresh()
    with closing(sqlite3.connect(index_path(root.path))) as connection:
        connection.executescript("UPDATE directories SET named_ns = 'x', inode = x'00'")
    with open_index(root) as again:
        assert not knows(again, root, 0)


def test_uses_are_told_apart_and_counted(root: StoreRoot) -> None:
    with open_index(root, mode="w") as index:
        index.refresh()
        index.mark_used(entry(1).key, 7)
        index.commit()
        shard = shard_of(1)
        assert index.count_in(shard) == 1
        assert (index.used_within(shard, 5, 9), index.used_otherwise(shard, 5, 9)) == (
            [entry(1).key],
            [],
        )
        assert (index.used_within(shard, 8, 9), index.used_otherwise(shard, 8, 9)) == (
            [],
            [entry(1).key],
        )


def test_an_mtime_that_a_copy_set_back_hides_nothing(root: StoreRoot) -> None:
    """`cp -a` and `tar -xp` do that, after names came and went."""
    shard = root.path / shard_of(0)
    before = os.stat(shard)
    with open_index(root, mode="w") as index:
        index.refresh()
        (root.path / root.layout.path_of(entry(0).key)).unlink()
        os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert os.stat(shard).st_mtime_ns == before.st_mtime_ns
        assert not knows(index, root, 0)
        index.refresh()
        assert entry(0).key not in {row.key for row in index.rows()}


def test_a_directory_that_another_process_dropped_is_numbered_anew(root: StoreRoot) -> None:
    with open_index(root, mode="w") as writer, open_index(root, mode="w") as other:
        for number in NUMBERS:
            add_row(writer, root, number)
        writer.commit()
        shutil.move(root.path / shard_of(0), root.path.parent / "aside")
        other.refresh()
        shutil.move(root.path.parent / "aside", root.path / shard_of(0))
        add_row(writer, root, 0)
        writer.commit()
        other.refresh()
        assert other.totals().entries == len(NUMBERS)
        assert sorted(row.key for row in other.rows()) == sorted(entry(n).key for n in NUMBERS)
