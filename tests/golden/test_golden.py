"""A file of each released format stays readable for ever, and its bytes stay the same."""

from __future__ import annotations

from pathlib import Path

from safetensors import safe_open

from tests.golden.make_golden import GOLDEN, golden_bytes, golden_entry
from tests.store.care import make_store
from vcache_cli.store import DiskStore

KEY = "c17301e415b515e932170115e3e5dec9cb566df289bacfb7fb1ca5ac25f48aa4"
"""Of the golden entry; a changed key means that no old entry is ever found again."""


def test_the_golden_entry_is_read(tmp_path: Path) -> None:
    root, wanted = make_store(tmp_path / "store"), golden_entry()
    path = root.path / root.layout.path_of(KEY)
    path.parent.mkdir()
    path.write_bytes(GOLDEN.read_bytes())
    found = DiskStore(root).get(KEY)
    assert found is not None
    assert (found.key, found.stage, found.provenance) == (KEY, wanted.stage, wanted.provenance)
    assert found.tensors.keys() == wanted.tensors.keys()
    for name, tensor in wanted.tensors.items():
        got = found.tensors[name]
        assert (got.dtype, got.shape, got.data) == (tensor.dtype, tensor.shape, tensor.data)


def test_the_golden_entry_is_written_the_same() -> None:
    assert golden_entry().key == KEY
    assert golden_bytes() == GOLDEN.read_bytes()


def test_the_reference_library_reads_the_golden_entry() -> None:
    with safe_open(GOLDEN, "np") as file:
        assert list(file.keys()) == ["features", "image_grid_thw", "mask", "pooled", "scale"]
        assert file.get_tensor("pooled").tolist() == [1.0, -2.0]
        assert file.get_tensor("image_grid_thw").tolist() == [[1, 2, 3]]
        assert file.metadata()["vcache.format"] == "1"
