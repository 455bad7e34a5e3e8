"""Taking entries in: the first of a key stands, damage is replaced, errors end it whole."""

from __future__ import annotations

import errno
import io
from pathlib import Path
from typing import TYPE_CHECKING

from tests.store.archives import exported, filled
from tests.store.care import add, entry, make_store
from vcache_cli.assemble import WarmOptions, import_archive, merge_stores
from vcache_cli.entry import Entry
from vcache_cli.errors import StoreFullError
from vcache_cli.items import Stage
from vcache_cli.store import OsFiles, StoreRoot, create_meta
from vcache_cli.store.writer import Publisher
from vcache_cli.targets.mlx_vlm_layout import MlxVlmLayout, mlx_vlm_key
from vcache_cli.tensor import Tensor

if TYPE_CHECKING:
    import pytest

OPTIONS = WarmOptions()


def contents(root: Path) -> dict[str, bytes]:
    """Entries by path."""
    return {str(p.relative_to(root)): p.read_bytes() for p in root.glob("??/*.safetensors")}


def test_of_two_sources_the_first_one_s_entry_stands(tmp_path: Path) -> None:
    """Also while it is still on its way to the disk."""
    one = filled(tmp_path / "one", range(40))
    other = make_store(tmp_path / "other")
    for number in range(40):
        add(other, entry(number, created=1.0))
    result = merge_stores([one.path, other.path], store=tmp_path / "all", options=OPTIONS)
    assert result.counts == {"stored": 40, "kept": 40}
    assert contents(tmp_path / "all") == contents(one.path)


def test_a_full_disk_ends_it_and_what_is_there_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, left = filled(tmp_path / "store", range(20)), [6]
    real = OsFiles.fsync

    def full(fd: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(fd)

    archive = exported(root)
    make_store(tmp_path / "copy")
    with monkeypatch.context() as patch:
        patch.setattr(OsFiles, "fsync", staticmethod(full))
        copy = tmp_path / "copy"
        result = import_archive(io.BytesIO(archive), store=copy, options=OPTIONS)
    assert isinstance(result.error, StoreFullError)
    assert result.as_json()["complete"] is False
    wanted = contents(root.path)
    assert all(wanted[path] == data for path, data in contents(copy).items())
    assert not list((copy / ".vcache" / "tmp").iterdir())
    again = import_archive(io.BytesIO(archive), store=copy, options=OPTIONS)
    assert again.error is None
    assert contents(copy) == wanted


def test_a_source_is_only_read(tmp_path: Path) -> None:
    root = filled(tmp_path / "store")
    before = {str(path): path.stat() for path in root.path.rglob("*")}
    merge_stores([root.path], store=tmp_path / "copy", options=OPTIONS)
    after = {str(path): path.stat() for path in root.path.rglob("*")}
    assert [(n, s.st_mtime_ns, s.st_ino, s.st_nlink) for n, s in before.items()] == [
        (n, s.st_mtime_ns, s.st_ino, s.st_nlink) for n, s in after.items()
    ]


def test_features_of_mlx_vlm_come_back_the_same(tmp_path: Path) -> None:
    path = tmp_path / "store"
    root = StoreRoot(path, MlxVlmLayout(), create_meta(path, target="mlx-vlm"))
    publisher = Publisher(OsFiles(), root)
    for number in range(3):
        name = f"processed:{number}"
        made = Entry(
            mlx_vlm_key(name, "e" * 64),
            Stage.FEATURES,
            {"features.0": Tensor("BF16", (4, 8), bytes(64))},
            metadata={"processed": name, "encoder": "e" * 64},
        )
        publisher.publish(publisher.pack(made))
    copy = tmp_path / "copy"
    result = import_archive(io.BytesIO(exported(root)), store=copy, options=OPTIONS)
    assert (result.error, result.counts) == (None, {"stored": 3})
    assert contents(copy) == contents(path)
