from __future__ import annotations

import os
from pathlib import Path

from vcache_cli.store.recognise import looks_like
from vcache_cli.targets.native import NativeLayout

KEY = "ab" + "0" * 62


def test_an_entry_in_its_place_makes_a_store(tmp_path: Path) -> None:
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / f"{KEY}.safetensors").touch()
    assert looks_like(tmp_path, NativeLayout())


def test_strangers_make_none(tmp_path: Path) -> None:
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / "notes.txt").touch()
    (tmp_path / "cd").mkdir()
    (tmp_path / "cd" / f"{KEY}.safetensors").touch()  # in another key's shard
    (tmp_path / "ef").symlink_to(tmp_path / "ab")
    os.symlink("nowhere", tmp_path / "ab" / f"{KEY}.safetensors")
    assert not looks_like(tmp_path, NativeLayout())
    assert not looks_like(tmp_path / "nothing", NativeLayout())
