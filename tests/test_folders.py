"""A folder's files as columns are its items, one by one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vcache_cli.folders import FolderFiles, facts_of
from vcache_cli.items import FileStat, MediaItem

NAMES = ["a.jpg", "b b.jpg", "\udce9.jpg"]


def files_of(prefix: str = "in/") -> FolderFiles:
    facts = [(size, 20 + size, 30 + size, 40 + size, 5) for size in range(len(NAMES))]
    return FolderFiles(prefix, NAMES, facts)


def test_a_file_is_the_item_that_it_would_be_alone() -> None:
    items = list(files_of())
    assert [item.path for item in items] == files_of().paths == ["in/" + name for name in NAMES]
    assert items[1] == MediaItem("in/b b.jpg", FileStat(1, 21, 31, 41, 5))
    assert files_of()[-1] == items[-1]


def test_fewer_files_are_a_folders_files_too() -> None:
    items = list(files_of())
    assert list(files_of()[1:]) == items[1:]
    assert list(files_of().chosen([True, False, True])) == [items[0], items[2]]
    assert not files_of()[3:]


@pytest.mark.parametrize("prefix", ["in/", "in/../in/", "/", "//in/", "in/./x/"])
def test_absolute_paths_are_those_of_the_items(prefix: str) -> None:
    files = files_of(prefix)
    assert [files.absolute_prefix + name for name in NAMES] == [
        item.absolute_path for item in files
    ]


def test_facts_are_the_fields_of_a_file_stat(tmp_path: Path) -> None:
    status = os.stat(tmp_path)
    assert facts_of(status) == FileStat.of(status)
