"""Asking for a folder's files together says what asking for each says."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.store.care import make_store
from vcache_cli.folders import Facts, FolderFiles
from vcache_cli.items import FileStat, Kind
from vcache_cli.protocols import Seen
from vcache_cli.store.index import Index, open_index
from vcache_cli.store.index_schema import index_path
from vcache_cli.store.memo_columns import unchanged_digests
from vcache_cli.store.meta import StoreRoot

COUNT = 12
CONTEXT = "c" * 64


def sha(number: int) -> str:
    return f"{number:064x}"


def facts(number: int) -> Facts:
    return (100 + number, 2_000 + number, 3_000 + number, 40 + number, 5)


def files_of(count: int = COUNT, *, name: str = "{:03}.jpg") -> FolderFiles:
    names = [name.format(number) for number in range(count)]
    return FolderFiles("/corpus/", names, [facts(number) for number in range(count)])


def remember(index: Index, files: FolderFiles, kind: Kind = Kind.IMAGE) -> None:
    for number, item in enumerate(files):
        assert item.stat
        index.remember_unchanged(item.absolute_path, item.stat, Seen(sha(number), kind))


def one_by_one(index: Index, files: FolderFiles) -> list[str]:
    seen = [index.unchanged(item.absolute_path, item.stat) for item in files if item.stat]
    return [each.source_sha256 if each and each.kind is Kind.IMAGE else "" for each in seen]


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    root = make_store(tmp_path / "store")
    with open_index(root, mode="w") as index:
        remember(index, files_of())
    return root


def read_whole(root: StoreRoot, files: FolderFiles) -> bool:
    """Whether the columns alone tell."""
    with sqlite3.connect(index_path(root.path)) as connection:
        return unchanged_digests(connection, files) is not None


def test_a_folder_in_which_nothing_changed_is_read_as_a_whole(root: StoreRoot) -> None:
    assert read_whole(root, files_of())
    with open_index(root) as index:
        assert index.digests_of(files_of()) == [sha(number) for number in range(COUNT)]


@pytest.mark.parametrize("field", range(5))
@pytest.mark.parametrize("place", [0, 5, COUNT - 1])
def test_a_file_of_which_anything_changed_is_not_known(
    root: StoreRoot, field: int, place: int
) -> None:
    changed = list(facts(place))
    changed[field] += 1
    files = files_of()
    stats = [*files.facts[:place], FileStat._make(changed), *files.facts[place + 1 :]]
    with open_index(root) as index:
        found = index.digests_of(replace(files, facts=stats))
    assert found == ["" if number == place else sha(number) for number in range(COUNT)]


def without(files: FolderFiles, *places: int) -> FolderFiles:
    return files.chosen(number not in places for number in range(len(files)))


def renamed(files: FolderFiles) -> FolderFiles:
    return replace(files, names=[*files.names[:4], "004b.jpg", *files.names[5:]])


def swapped(files: FolderFiles) -> FolderFiles:
    """Each of two files has the other's place."""
    facts = [*files.facts]
    facts[3], facts[4] = facts[4], facts[3]
    return replace(files, facts=facts)


CHANGED: dict[str, Callable[[FolderFiles], FolderFiles]] = {
    "added": lambda _: files_of(COUNT + 2),
    "removed": lambda files: without(files, 4),
    "first removed": lambda files: without(files, 0),
    "last removed": lambda files: without(files, COUNT - 1),
    "renamed": renamed,
    "swapped": swapped,
    "a part": lambda files: files[3:7],
    "other case": lambda files: replace(files, names=[name.upper() for name in files.names]),
    "elsewhere": lambda files: replace(files, prefix="/copy/"),
    "not in order": lambda files: replace(
        files, names=[*reversed(files.names)], facts=[*reversed(files.facts)]
    ),
    "a time too far": lambda files: replace(files, facts=[(1, 2**70, 2, 3, 4), *files.facts[1:]]),
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED.keys())
def test_another_listing_is_told_file_by_file(
    root: StoreRoot, change: Callable[[FolderFiles], FolderFiles]
) -> None:
    files = change(files_of())
    with open_index(root) as index:
        assert index.digests_of(files) == one_by_one(index, files)


NAMES = ["a", "b\udce9", "c\n", "d é", "\U0001f600", "\udcff", 'e"\\']


def test_names_of_any_bytes_are_found(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store")
    files = FolderFiles("/any \udce9/", sorted(NAMES), [facts(n) for n in range(len(NAMES))])
    with open_index(root, mode="w") as index:
        remember(index, files)
        for _ in range(2):
            assert index.digests_of(files) == [sha(number) for number in range(len(NAMES))]
            index.commit()


def test_what_lies_between_is_another_folders(root: StoreRoot) -> None:
    with open_index(root, mode="w") as index:
        remember(index, replace(files_of(), prefix="/corpus/003.jpg.d/"))
        assert index.digests_of(files_of()) == [sha(number) for number in range(COUNT)]


@pytest.mark.parametrize("kind", [Kind.VIDEO, Kind.OTHER])
def test_what_is_no_picture_is_left_to_others(root: StoreRoot, kind: Kind) -> None:
    with open_index(root, mode="w") as index:
        remember(index, files_of()[:1], kind)
        for _ in range(2):
            assert index.digests_of(files_of()) == ["", *map(sha, range(1, COUNT))]
            index.commit()


def test_what_is_remembered_meanwhile_counts_at_once(root: StoreRoot) -> None:
    files = replace(files_of(), facts=[(1, 2, 3, 4, 5), *files_of().facts[1:]])
    with open_index(root, mode="w") as index:
        index.remember_unchanged(
            "/corpus/000.jpg", FileStat(1, 2, 3, 4, 5), Seen(sha(77), Kind.IMAGE)
        )
        for _ in range(2):
            assert index.digests_of(files) == [sha(77), *map(sha, range(1, COUNT))]
            index.commit()


DAMAGE = {
    "a digest cut short": "source = substr(source, 1, 31)",
    "a digest of text": "source = hex(substr(source, 1, 16))",
    "no digest": "source = ''",
    "a kind of no name": "kind = 'picture'",
    "a stat cut short": "stat = substr(stat, 1, 39)",
    "a stat of text": "stat = 'x'",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_row_that_was_damaged_tells_what_it_tells_alone(root: StoreRoot, damage: str) -> None:
    with sqlite3.connect(index_path(root.path)) as connection:
        update = f"UPDATE unchanged SET {damage} WHERE path = ?"  # noqa: S608  our own text
        connection.execute(update, (b"/corpus/002.jpg",))
    assert not read_whole(root, files_of())
    with open_index(root) as index:
        assert index.digests_of(files_of()) == one_by_one(index, files_of())


def move_a_byte(connection: sqlite3.Connection, column: str, path: bytes, following: bytes) -> None:
    """From the beginning of the following row to the end of that at `path`."""
    select = f"SELECT {column} FROM unchanged WHERE path = ?"  # noqa: S608  our own names
    update = f"UPDATE unchanged SET {column} = ? WHERE path = ?"  # noqa: S608  as above
    (first,), (second,) = (
        connection.execute(select, (each,)).fetchone() for each in (path, following)
    )
    connection.executemany(update, [(first + second[:1], path), (second[1:], following)])


def test_bytes_that_moved_to_the_next_row_are_seen(root: StoreRoot) -> None:
    """As a whole the column is the same."""
    with sqlite3.connect(index_path(root.path)) as connection:
        for column in ("stat", "source"):
            move_a_byte(connection, column, b"/corpus/002.jpg", b"/corpus/003.jpg")
    assert not read_whole(root, files_of())
    with open_index(root) as index:
        found = index.digests_of(files_of())
    assert found == ["" if number in {2, 3} else sha(number) for number in range(COUNT)]


def test_keys_of_many_contents_are_those_of_each(root: StoreRoot) -> None:
    known = {sha(1): "ab" * 32, sha(3): "cd" * 32}
    asked = [sha(3), sha(2), sha(1), sha(3)]
    with open_index(root, mode="w") as index:
        for source, key in known.items():
            index.remember_known(source, CONTEXT, key)
        for _ in range(2):
            assert index.known_among(asked, CONTEXT) == [known.get(each, "") for each in asked]
            index.commit()
        assert index.known_among(asked, "d" * 64) == [""] * 4


def test_a_broken_index_knows_nothing(root: StoreRoot) -> None:
    with open_index(root) as index:
        index._connection.execute("DROP TABLE unchanged")
        assert index.digests_of(files_of()) == [""] * COUNT
        index._connection.execute("DROP TABLE known")
        assert index.known_among([sha(1)], CONTEXT) == [""]
