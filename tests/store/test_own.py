"""Whatever lies in the place of a folder of ours: nothing is made or removed outside."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.care import NOW, add, entry, make_store
from vcache_cli.errors import AccessError, NotAStoreError
from vcache_cli.store import DiskStore, StoreRoot, create_meta, gc_lock, write_lock
from vcache_cli.store.runs import RunLog
from vcache_cli.store.verify import VerifyOptions, verify_store

KINDS: dict[str, Callable[[Path], object]] = {
    "a link": lambda path: path.symlink_to(path.parents[2] / "outside"),
    "a file": lambda path: path.write_bytes(b"mine"),
    "a pipe": os.mkfifo,
}
WAYS: dict[str, Callable[[StoreRoot], object]] = {
    "runs": RunLog,
    "locks": lambda root: write_lock(root).__enter__(),
    "tmp": lambda root: DiskStore(root, mode="w"),
    "quarantine": lambda root: verify_store(root, VerifyOptions(repair=True), now=NOW),
}


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/old").write_bytes(b"precious")
    os.utime(tmp_path / "outside/old", (NOW, NOW))
    return make_store(tmp_path / "store")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WAYS)
def test_what_lies_in_place_of_a_folder_is_named_and_not_followed(
    root: StoreRoot, name: str, kind: str
) -> None:
    place = root.path / ".vcache" / name
    for old in place.iterdir():
        old.unlink()
    place.rmdir()
    KINDS[kind](place)
    with pytest.raises(NotAStoreError, match=f"{name}: expected a folder, found {kind}") as caught:
        WAYS[name](root)
    assert "move it away" in caught.value.hint
    outside = root.path.parent / "outside"
    assert [path.name for path in outside.iterdir()] == ["old"]


@pytest.mark.parametrize("name", ["runs", "tmp", "quarantine"])
def test_a_folder_that_is_missing_is_made_again(root: StoreRoot, name: str) -> None:
    add(root, entry(1)).write_bytes(b"damaged")
    (root.path / ".vcache" / name).rmdir()
    WAYS[name](root)
    mode = (root.path / ".vcache" / name).stat().st_mode
    assert mode & 0o777 == root.meta.modes.directory & 0o777


@pytest.mark.parametrize("kind", [*KINDS, "a folder"])
@pytest.mark.parametrize("name", ["write", "gc"])
def test_what_lies_in_place_of_a_lock_is_named(root: StoreRoot, name: str, kind: str) -> None:
    place = root.path / ".vcache/locks" / name
    if kind == "a file":
        return
    KINDS.get(kind, Path.mkdir)(place)
    lock = gc_lock if name == "gc" else write_lock
    with pytest.raises(NotAStoreError, match=f"locks/{name}: expected a file, found {kind}"):
        lock(root).__enter__()


@pytest.mark.parametrize("name", ["runs", "locks"])
def test_what_a_handle_refuses_is_told_by_its_whole_path(
    root: StoreRoot, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    really = os.open

    def refuse(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is not None and path != name:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return really(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(AccessError, match=f"{root.path}/.vcache/{name}/"):
        WAYS[name](root)


@pytest.mark.parametrize("kind", KINDS)
def test_no_store_is_made_through_something_else(root: StoreRoot, kind: str) -> None:
    place = root.path / ".vcache"
    place.rename(root.path.parent / "own")
    KINDS[kind](root.path / ".vcache")
    with pytest.raises(NotAStoreError, match=r"\.vcache: expected a folder, found"):
        create_meta(root.path, target="native")
    with pytest.raises(NotAStoreError, match=r"\.vcache: expected a folder, found"):
        RunLog(root)
