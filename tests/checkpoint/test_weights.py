"""Weight files: which there are, where each tensor lies, and that nothing else is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import FileIO
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from samples.make_tiny_checkpoints import make_checkpoint
from vcache_cli.checkpoint import open_checkpoint, weights
from vcache_cli.errors import InvalidEntryError, ModelError
from vcache_cli.header import HeaderLimits, parse_header

INDEX = "model.safetensors.index.json"
Damage = Callable[[Path], object]


def sharded(folder: Path) -> Path:
    """Three weight files and an index."""
    return make_checkpoint(folder, shards=3)


def test_shards_hold_the_same_tensors_as_one_file(tmp_path: Path, tiny_siglip: Path) -> None:
    single = open_checkpoint(str(tiny_siglip))
    several = open_checkpoint(str(sharded(tmp_path / "m")))
    assert set(single.tensors) == set(several.tensors)
    for name in single.tensors:
        assert bytes(single.read(name).data) == bytes(several.read(name).data)


def test_only_the_bytes_of_what_is_asked_for_are_read(
    tiny_siglip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large model warms on a small machine."""
    spans: list[tuple[int, int]] = []
    read = weights.read_range

    def recorded(file: FileIO, offset: int, size_bytes: int) -> memoryview:
        spans.append((offset, size_bytes))
        return read(file, offset, size_bytes)

    monkeypatch.setattr(weights, "read_range", recorded)
    checkpoint = open_checkpoint(str(tiny_siglip))
    assert spans == []
    place = checkpoint.tensors["vision_model.head.probe"]
    header_bytes = spans[1][1]
    assert spans == [(0, 8), (8, header_bytes)]
    checkpoint.read("vision_model.head.probe")
    assert spans[2:] == [(place.offset, 32 * 4)]


def test_a_lone_file_of_another_name_serves(tmp_path: Path, tiny_siglip: Path) -> None:
    folder = make_checkpoint(tmp_path / "m")
    (folder / "model.safetensors").rename(folder / "weights.safetensors")
    assert len(open_checkpoint(str(folder)).tensors) == 72


def test_one_file_comes_before_an_index(tmp_path: Path) -> None:
    folder = sharded(tmp_path / "m")
    save_file({"only": np.zeros(1, np.float32)}, folder / "model.safetensors")
    assert list(open_checkpoint(str(folder)).tensors) == ["only"]


def without_weights(folder: Path) -> None:
    for path in folder.glob("model*"):
        path.unlink()


def only_pickles(folder: Path) -> None:
    without_weights(folder)
    (folder / "pytorch_model.bin").touch()


def no_index(folder: Path) -> None:
    (folder / INDEX).unlink()


def change_index(folder: Path, name: str, shard: object) -> None:
    content = json.loads((folder / INDEX).read_text())
    content["weight_map"][name] = shard
    (folder / INDEX).write_text(json.dumps(content))


def cut_short(folder: Path) -> None:
    path = folder / "model-00002-of-00003.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def lfs_pointer(folder: Path) -> None:
    path = folder / "model-00002-of-00003.safetensors"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")


DAMAGES: dict[str, tuple[Damage, str]] = {
    "none": (without_weights, "found neither"),
    "pickles": (only_pickles, "found only pytorch_model.bin"),
    "no index": (no_index, "found 3 files without an index"),
    "tensor missing": (
        lambda folder: change_index(folder, "extra", "model-00002-of-00003.safetensors"),
        "expected `extra` in model-00002-of-00003.safetensors, found no such tensor",
    ),
    "outside": (lambda folder: change_index(folder, "x", "../x"), "found '../x'"),
    "absolute": (lambda folder: change_index(folder, "x", "/etc/x"), "found '/etc/x'"),
    "no name": (lambda folder: change_index(folder, "x", 1), "found 1"),
    "empty map": (lambda folder: (folder / INDEX).write_text("{}"), "`weight_map`"),
    "cut short": (cut_short, "expected a safetensors file, found: "),
    "pointer": (lfs_pointer, "expected a safetensors file, found: "),
}


@pytest.mark.parametrize(("damage", "told"), DAMAGES.values(), ids=DAMAGES)
def test_weights_that_cannot_be_used_are_described(
    damage: Damage, told: str, tmp_path: Path
) -> None:
    folder = sharded(tmp_path / "m")
    damage(folder)
    checkpoint = open_checkpoint(str(folder))  # stage `pixels` goes on without weights
    with pytest.raises(ModelError) as caught:
        _ = checkpoint.tensors
    assert told in caught.value.message


def test_a_file_that_shrinks_after_its_header_was_read_is_noticed(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "m")
    checkpoint = open_checkpoint(str(folder))
    last = max(checkpoint.tensors, key=lambda name: checkpoint.tensors[name].offset)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelError, match="expected a safetensors file, found: "):
        checkpoint.read(last)


def test_a_file_that_vanishes_is_named(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "m")
    checkpoint = open_checkpoint(str(folder))
    assert checkpoint.tensors
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"model\.safetensors: cannot be read"):
        checkpoint.read("logit_bias")


def test_a_file_as_mlx_saves_it_without_metadata_is_read(tmp_path: Path, tiny_siglip: Path) -> None:
    folder = make_checkpoint(tmp_path / "m")
    path = folder / "model.safetensors"
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    table = json.loads(data[8:end]) | {"__metadata__": None}
    header = json.dumps(table).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data[end:])
    found, expected = (open_checkpoint(str(each)) for each in (folder, tiny_siglip))
    for name in expected.tensors:
        assert bytes(found.read(name).data) == bytes(expected.read(name).data)


def test_foreign_dtypes_pass_only_where_a_layout_allows_them() -> None:
    raw = b'{"a":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[0,3]}}'
    found = parse_header(raw, 3, HeaderLimits(foreign_dtypes=True))
    assert found.tensors[0].dtype == "F8_E4M3"
    with pytest.raises(InvalidEntryError, match="F8_E4M3"):
        parse_header(raw, 3, HeaderLimits())
