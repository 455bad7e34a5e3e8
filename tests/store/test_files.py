"""Errors of the system become errors that say what to do; directories are made and synced."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from tests.store.faults import FaultyFiles, ShortFiles
from vcache_cli.errors import AccessError, StoreFullError
from vcache_cli.store import OsFiles
from vcache_cli.store.files import explained, make_directory, sync_directory, write_all


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_space_says_how_much_is_there(tmp_path: Path, error: int) -> None:
    with (
        pytest.raises(StoreFullError, match=r"7 B needed, [\d.]+ [KMGT]?i?B free"),
        explained(OsFiles(), str(tmp_path), needed_bytes=7),
    ):
        raise OSError(error, os.strerror(error))


def test_no_space_is_told_even_where_free_space_is_not_known(tmp_path: Path) -> None:
    with (
        pytest.raises(StoreFullError, match="free space unknown"),
        explained(OsFiles(), str(tmp_path / "gone")),
    ):
        raise OSError(errno.ENOSPC, "full")


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_what_is_not_permitted_names_the_file(tmp_path: Path, error: int) -> None:
    with pytest.raises(AccessError, match="the_file") as caught, explained(OsFiles(), "/s"):
        raise OSError(error, os.strerror(error), str(tmp_path / "the_file"))
    assert caught.value.exit_code == 14


def test_another_error_stays_what_it_is() -> None:
    with pytest.raises(OSError, match="broken"), explained(OsFiles(), "/s"):
        raise OSError(errno.EIO, "broken")


def test_a_directory_gets_its_mode_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        assert make_directory(OsFiles(), str(tmp_path / "d"), 0o2770)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o2770
    assert not make_directory(OsFiles(), str(tmp_path / "d"), 0o700)


@pytest.mark.parametrize("step", range(3))
def test_no_descriptor_leaks_when_a_directory_is_synced(tmp_path: Path, step: int) -> None:
    files = FaultyFiles(step, errno.EIO)
    if step == 2:  # closing what nothing was written through
        sync_directory(files, str(tmp_path))
    else:
        with pytest.raises(OSError, match="Input"):
            sync_directory(files, str(tmp_path))
    opened = [name for name, _ in files.log[: -1 if step == 0 else None]]
    assert opened.count("open") == opened.count("close")


def test_a_system_that_writes_nothing_does_not_loop_for_ever(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "f", os.O_WRONLY | os.O_CREAT)
    try:
        with pytest.raises(OSError, match="wrote nothing"):
            write_all(ShortFiles(0), fd, b"abc")
    finally:
        os.close(fd)
