"""Files of a folder are found together, and are the items that they would be alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.media.test_discover import make
from vcache_cli.cli.corpus import corpus
from vcache_cli.folders import FolderFiles
from vcache_cli.items import FileStat, MediaItem
from vcache_cli.media import shard_of, sources
from vcache_cli.media import walk as walking
from vcache_cli.media.walk import walk

NAMES = [f"{number:02}.jpg" for number in range(20)]


def sizes(top: Path) -> list[tuple[type, int]]:
    return [(type(batch), len(batch)) for batch in walk(str(top))]


def paths_of(*specs: str) -> list[str]:
    return [item.path for item in sources(specs).items() if isinstance(item, MediaItem)]


def test_files_of_a_folder_are_found_together(tmp_path: Path) -> None:
    make(tmp_path, *NAMES, *(f"more/{name}" for name in NAMES))
    assert sizes(tmp_path) == [(FolderFiles, 20)] * 2
    for batch in walk(str(tmp_path)):
        for item in batch:
            assert item == MediaItem(item.path, FileStat.of(os.stat(item.path)))


def test_few_files_of_a_folder_are_items_each(tmp_path: Path) -> None:
    make(tmp_path, *NAMES[:3])
    assert sizes(tmp_path) == [(list, 3)]


def test_what_is_no_file_keeps_its_place_among_files(tmp_path: Path) -> None:
    make(tmp_path, *NAMES)
    (tmp_path / "09b.jpg").symlink_to("nowhere")
    (tmp_path / "09c.jpg").symlink_to("09c.jpg")
    os.mkfifo(tmp_path / "09d.jpg")
    items = [item for batch in walk(str(tmp_path)) for item in batch]
    paths = [os.path.basename(item.path) for item in items]
    assert paths == [*NAMES[:10], "09b.jpg", "09c.jpg", "09d.jpg", *NAMES[10:]]
    assert [item.stat is None for item in items] == [path not in NAMES for path in paths]
    assert sizes(tmp_path) == [(FolderFiles, 10), (list, 3), (FolderFiles, 10)]


def test_the_first_files_of_a_large_folder_do_not_wait_for_its_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "_MOST_FILES", 9)
    make(tmp_path, *NAMES)
    assert [size for _, size in sizes(tmp_path)] == [9, 9, 2]
    assert [item.path for batch in walk(str(tmp_path)) for item in batch] == [
        str(tmp_path / name) for name in NAMES
    ]


def test_containers_are_opened_in_their_place(tmp_path: Path) -> None:
    make(tmp_path, *NAMES, "09b.TAR", "09c.tar.jpg", "zz.zip")
    paths = [
        os.path.basename(item.path)
        for item in sources([str(tmp_path)]).items()
        if isinstance(item, MediaItem)
    ]
    assert paths == [*NAMES[:10], "09b.TAR", "09c.tar.jpg", *NAMES[10:], "zz.zip"]
    found = [len(batch) for batch in sources([str(tmp_path)]).batches()]
    assert found == [10, 1, 11, 1]


@pytest.mark.parametrize(
    "again", [".", "more/..", "./more", "more//", "more/00.jpg", "more/../more"]
)
def test_a_folder_named_twice_is_found_once(
    tmp_path: Path, again: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for a path with `..`, which may lead elsewhere."""
    monkeypatch.chdir(tmp_path)
    make(tmp_path, *NAMES, *(f"more/{name}" for name in NAMES))
    once = {
        os.path.normpath(item.path)
        for item in sources(["."]).items()
        if isinstance(item, MediaItem)
    }
    found = [item.path for item in sources([".", again]).items() if isinstance(item, MediaItem)]
    assert {os.path.normpath(path) for path in found} == once
    assert len(found) == len(once) or ".." in again


def test_of_a_folder_named_after_some_of_its_files_the_others_are_found(tmp_path: Path) -> None:
    make(tmp_path, *NAMES)
    named = [str(tmp_path / name) for name in NAMES[3:6]]
    found = [*sources([*named, str(tmp_path)]).batches()]
    assert [len(batch) for batch in found] == [1, 1, 1, 17]
    assert isinstance(found[-1], FolderFiles)


@pytest.mark.parametrize("limit", [0, 1, 7, 20, 27, 40, 50])
def test_a_limit_cuts_a_folder_short(tmp_path: Path, limit: int) -> None:
    make(tmp_path, *NAMES, *(f"more/{name}" for name in NAMES))
    named = corpus([str(tmp_path)], limit=limit)
    assert len([*named.items()]) == named.found == min(limit, 40)
    assert named.ended


def test_shards_of_a_folder_are_its_files_each_once(tmp_path: Path) -> None:
    make(tmp_path, *NAMES, "b/few.jpg")
    whole = [item.locator for item in corpus([str(tmp_path)]).items()]
    shards = [
        [item.locator for item in corpus([str(tmp_path)], shard=(part, 3)).items()]
        for part in (1, 2, 3)
    ]
    assert sorted(path for shard in shards for path in shard) == sorted(whole)
    for number, shard in enumerate(shards):
        assert shard == [path for path in whole if shard_of(path, count=3) == number]
