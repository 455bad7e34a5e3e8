"""One open, one read; every way in which that fails has a kind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vcache_cli.errors import ReadError
from vcache_cli.items import MediaItem
from vcache_cli.media import read_if, read_item


def failure(path: str | Path, max_bytes: int = 100) -> ReadError:
    """The error that reading `path` ends with."""
    with pytest.raises(ReadError) as error:
        read_item(MediaItem(str(path)), max_bytes=max_bytes)
    assert str(path) not in error.value.message
    return error.value


def test_all_bytes_are_read_or_none_as_the_head_says(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(range(100)))
    assert read_item(MediaItem(str(path)), max_bytes=100) == bytes(range(100))
    heads: list[bytes] = []
    assert read_if(MediaItem(str(path)), heads.append) is None
    assert heads == [bytes(range(64))]


def test_an_empty_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert read_item(MediaItem(str(tmp_path / "a")), max_bytes=0) == b""


def test_a_file_above_the_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(101))
    error = failure(tmp_path / "a")
    assert error.item_kind == "too_large"
    assert "100" in error.message


def test_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    for path in (tmp_path / "none", tmp_path / "a/b", tmp_path / ("x" * 300), "a\0b"):
        assert failure(path).item_kind == "not_found"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_may_not_be_read_is_permission(tmp_path: Path) -> None:
    (tmp_path / "a").touch(mode=0)
    assert failure(tmp_path / "a").item_kind == "permission"


def test_a_folder_and_a_pipe_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert failure(tmp_path).item_kind == "not_a_file"
    assert "a pipe" in failure(tmp_path / "pipe").message
    assert failure("/dev/null").item_kind == "not_a_file"


@pytest.mark.parametrize("change", [b"longer than before", b"short", b"same!!"])
def test_a_file_that_changes_while_it_is_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: bytes
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    os.utime(path, ns=(0, 0))
    real = os.read

    def read_then_change(handle: int, size_bytes: int) -> bytes:
        data = real(handle, size_bytes)
        path.write_bytes(change)
        return data

    monkeypatch.setattr(os, "read", read_then_change)
    assert failure(path).item_kind == "changed"


def test_a_file_that_comes_in_pieces_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(range(50)))
    real = os.read
    monkeypatch.setattr(os, "read", lambda handle, size: real(handle, min(size, 7)))
    assert read_item(MediaItem(str(path)), max_bytes=50) == bytes(range(50))


def test_no_handle_is_left_open(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    (tmp_path / "a").write_bytes(b"data")
    for _ in range(5):
        read_item(MediaItem(str(tmp_path / "a")), max_bytes=9)
        failure(tmp_path / "a", max_bytes=1)
    assert len(os.listdir("/dev/fd")) == before
