"""From printable names back to files, whatever bytes they have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vcache_cli.items import display_path
from vcache_cli.report.places import find_file, list_failed

ODD = [b"caf\xe9.png", b"caf\\xe9.png", "caf\u00e9.png".encode(), b"a + b.png", b"x::y.png"]


def made(folder: Path, name: bytes) -> bytes:
    path = os.path.join(os.fsencode(folder), name)
    try:
        with open(path, "wb"):
            return path
    except OSError:
        pytest.skip("this file system takes no such name")


@pytest.mark.parametrize("name", ODD, ids=range(len(ODD)))
def test_a_file_is_found_by_its_printable_name(tmp_path: Path, name: bytes) -> None:
    path = made(tmp_path, name)
    assert find_file(display_path(os.fsdecode(name)), str(tmp_path)) == path
    assert find_file(display_path(os.fsdecode(path)), None) == path
    assert list(list_failed([display_path(os.fsdecode(name))], str(tmp_path))) == [path]


def test_a_part_is_listed_as_its_container_once(tmp_path: Path) -> None:
    path = made(tmp_path, b"all.tar")
    assert list(list_failed(["all.tar::a.png", "all.tar::b.png"], str(tmp_path))) == [path]


def test_a_request_is_listed_as_its_pictures(tmp_path: Path) -> None:
    paths = [made(tmp_path, name) for name in (b"a.png", b"b.png")]
    assert list(list_failed(["a.png + b.png"], str(tmp_path))) == paths


def test_what_is_gone_is_named_as_it_was(tmp_path: Path) -> None:
    gone = os.fsencode(tmp_path / "gone.png")
    assert list(list_failed(["gone.png"], str(tmp_path))) == [gone]
