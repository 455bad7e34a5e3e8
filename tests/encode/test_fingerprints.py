"""Fingerprints are remembered while the files are the same, and never beyond that."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from vcache_cli.checkpoint import open_checkpoint, weights
from vcache_cli.encode import FingerprintMemo, load_encoder, numpy_backend, siglip
from vcache_cli.encode.encoder import TowerEncoder
from vcache_cli.errors import ModelError
from vcache_cli.items import Pixels

Folders = Callable[..., Path]
HOUR_NS = 3600 * 10**9


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of all tensor reads, in order."""
    sizes: list[int] = []
    read = weights.read_tensor

    def counted(place: weights.TensorRange) -> memoryview:
        sizes.append(place.size_bytes)
        return read(place)

    monkeypatch.setattr("vcache_cli.checkpoint.folder.read_tensor", counted)
    return sizes


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour from now: what was just written is settled."""
    now = time.time_ns() + HOUR_NS
    monkeypatch.setattr("vcache_cli.encode.fingerprints.time.time_ns", lambda: now)


def load(folder: Path, memo: Path) -> TowerEncoder:
    checkpoint = open_checkpoint(str(folder))
    return load_encoder(checkpoint, siglip.TOWER, numpy_backend.BACKEND, memo=FingerprintMemo(memo))


@pytest.mark.usefixtures("later")
def test_a_second_load_reads_no_weights(
    checkpoint_folder: Folders, tmp_path: Path, reads: list[int], pictures: list[Pixels]
) -> None:
    folder, memo = checkpoint_folder("siglip", shards=3), tmp_path / "memo/f.json"
    first = load(folder, memo)
    assert reads
    expected = first.encode(pictures[:1])[0].tensors["features"]
    reads.clear()
    second = load(folder, memo)
    assert second.fingerprint == first.fingerprint
    assert reads == []
    assert np.array_equal(second.encode(pictures[:1])[0].tensors["features"], expected)
    assert len(reads) == len(first.plan.tensors)


@pytest.mark.usefixtures("later")
def test_a_changed_file_is_hashed_again(
    checkpoint_folder: Folders, tmp_path: Path, reads: list[int]
) -> None:
    folder, memo = checkpoint_folder("siglip"), tmp_path / "f.json"
    first = load(folder, memo)
    path = folder / "model.safetensors"
    before, tensors = path.stat(), load_file(path)
    tensors["vision_model.post_layernorm.bias"][0] += 1
    save_file(tensors, path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # the inode's own time tells
    reads.clear()
    assert load(folder, memo).fingerprint != first.fingerprint
    assert reads


def test_what_changed_a_moment_ago_is_not_remembered(
    checkpoint_folder: Folders, tmp_path: Path, reads: list[int]
) -> None:
    folder, memo = checkpoint_folder("siglip"), tmp_path / "f.json"
    load(folder, memo)
    assert not memo.exists()
    reads.clear()
    load(folder, memo)
    assert reads


@pytest.mark.usefixtures("later")
def test_other_settings_are_another_fingerprint(
    checkpoint_folder: Folders, tmp_path: Path, reads: list[int]
) -> None:
    folder, memo = checkpoint_folder("siglip"), tmp_path / "f.json"
    first = load(folder, memo)
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace("1e-06", "1e-05"))
    assert load(folder, memo).fingerprint != first.fingerprint


@pytest.mark.usefixtures("later")
def test_weights_that_change_after_they_were_named_are_refused(
    checkpoint_folder: Folders, tmp_path: Path, pictures: list[Pixels]
) -> None:
    folder, memo = checkpoint_folder("siglip"), tmp_path / "f.json"
    load(folder, memo)
    known = load(folder, memo)
    os.utime(folder / "model.safetensors", (0, 0))
    with pytest.raises(ModelError, match="changed while they were in use"):
        known.encode(pictures[:1])


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"format": 2}', b'{"format": 1, "fingerprints": 3}', b"\xff"]
)
def test_a_memo_that_makes_no_sense_is_written_anew(
    content: bytes, checkpoint_folder: Folders, tmp_path: Path
) -> None:
    memo = tmp_path / "f.json"
    memo.write_bytes(content)
    first = load(checkpoint_folder("siglip"), memo)
    assert list(json.loads(memo.read_text())["fingerprints"].values()) == [first.fingerprint]


@pytest.mark.usefixtures("later")
def test_a_fingerprint_that_is_none_is_not_believed(
    checkpoint_folder: Folders, tmp_path: Path
) -> None:
    folder, memo = checkpoint_folder("siglip"), tmp_path / "f.json"
    first = load(folder, memo)
    content: dict[str, Any] = json.loads(memo.read_text())
    content["fingerprints"] = dict.fromkeys(content["fingerprints"], "../../x")
    memo.write_text(json.dumps(content))
    assert load(folder, memo).fingerprint == first.fingerprint


@pytest.mark.usefixtures("later")
def test_a_folder_that_cannot_be_made_costs_only_time(
    checkpoint_folder: Folders, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    assert load(checkpoint_folder("siglip"), tmp_path / "file/f.json").fingerprint


@pytest.mark.usefixtures("later")
def test_the_memo_stays_small(tmp_path: Path, checkpoint_folder: Folders) -> None:
    memo = FingerprintMemo(tmp_path / "f.json")
    files = load(checkpoint_folder("siglip"), tmp_path / "g.json").weights._files
    for number in range(520):
        memo.put(f"{number:064x}", "0" * 64, files)
    assert memo.get(f"{0:064x}") is None
    assert memo.get(f"{519:064x}") == "0" * 64
    assert [path.name for path in tmp_path.glob(".fingerprints-*")] == []


def planted(memo: Path) -> str:
    """Every fingerprint that is remembered becomes another one, which is returned."""
    content = json.loads(memo.read_text())
    content["fingerprints"] = dict.fromkeys(content["fingerprints"], "0" * 64)
    memo.write_text(json.dumps(content))
    return "0" * 64


@pytest.mark.usefixtures("later")
def test_a_wrong_fingerprint_names_no_features_and_is_forgotten(
    checkpoint_folder: Folders, tmp_path: Path, pictures: list[Pixels]
) -> None:
    """One flipped bit in the memo would else put every entry under a name that nobody looks for."""
    folder, memo = checkpoint_folder("siglip"), tmp_path / "f.json"
    first = load(folder, memo)
    wrong = planted(memo)
    misled = load(folder, memo)
    assert misled.fingerprint == wrong
    with pytest.raises(ModelError, match="remembered fingerprint"):
        misled.encode(pictures[:1])
    assert load(folder, memo).fingerprint == first.fingerprint


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("mode", [0o666, 0o660])
def test_a_file_that_others_can_write_is_not_believed(
    checkpoint_folder: Folders, tmp_path: Path, mode: int
) -> None:
    folder, memo = checkpoint_folder("siglip"), tmp_path / "f.json"
    first = load(folder, memo)
    wrong = planted(memo)
    memo.chmod(mode)
    assert load(folder, memo).fingerprint == first.fingerprint != wrong
    assert memo.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("later")
def test_a_pipe_in_place_of_the_file_keeps_nobody_waiting(
    checkpoint_folder: Folders, tmp_path: Path
) -> None:
    folder, memo = checkpoint_folder("siglip"), tmp_path / "f.json"
    os.mkfifo(memo)
    first = load(folder, memo)
    assert memo.is_file()  # replaced
    assert load(folder, memo).fingerprint == first.fingerprint
