from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.store.care import add, entry, make_store
from vcache_cli.store.meta import StoreRoot
from vcache_cli.store.presence import Presence
from vcache_cli.store.use import Use


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    return make_store(tmp_path / "store")


@pytest.mark.parametrize(
    ("age_seconds", "touches"), [(10, 0), (3000, 0), (3700, 1), (-3600, 1)], ids=str
)
def test_an_entry_is_touched_once_an_hour(root: StoreRoot, age_seconds: int, touches: int) -> None:
    then = time.time() - age_seconds
    path = add(root, entry(1))
    os.utime(path, (then, then))
    touched: list[str] = []
    assert Use(root, touched.append)(entry(1).key)
    assert touched == [entry(1).key] * touches


def test_what_another_process_removes_is_missed_at_once(root: StoreRoot) -> None:
    path = add(root, entry(1))
    use = Use(root, lambda _: None)
    assert use(entry(1).key)
    path.unlink()
    assert not use(entry(1).key)


def test_it_finds_what_presence_finds(root: StoreRoot, tmp_path: Path) -> None:
    paths = [add(root, entry(number)) for number in range(4)]
    paths[1].unlink()
    paths[1].symlink_to(paths[0])
    paths[2].unlink()
    paths[2].mkdir()
    shard = paths[3].parent
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    use, present = Use(root, lambda _: None), Presence(root)
    keys = [*(entry(number).key for number in range(5)), "../x", ""]
    assert [use(key) for key in keys] == [present(key) for key in keys] == [True] + [False] * 6
