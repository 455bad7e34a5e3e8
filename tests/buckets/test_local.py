"""Files of this machine as objects: read in parts, and nothing that would wait for ever."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vcache_cli.buckets.local import file_bytes


@pytest.mark.parametrize(
    ("start", "end", "told"),
    [(0, 4, b"0123"), (2, 4, b"23"), (8, 2**40, b"89"), (10, 20, b""), (12, 20, b"")],
)
def test_a_part_ends_where_the_file_does(tmp_path: Path, start: int, end: int, told: bytes) -> None:
    path = tmp_path / "object"
    path.write_bytes(b"0123456789")
    assert file_bytes(str(path), start, end) == told


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(OSError, match="in its place"):
        file_bytes(str(path), 0, 10)
