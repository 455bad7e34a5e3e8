"""A file of each released format stays readable for ever, and its bytes stay the same."""

from __future__ import annotations

import io
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors import safe_open

from tests.golden.make_golden import (
    GOLDEN,
    GOLDEN_EXPORT,
    GOLDEN_LEVELS,
    golden_bytes,
    golden_entry,
    golden_export,
    golden_levels,
)
from tests.store.care import make_store
from vcache_cli.assemble import WarmOptions, import_archive
from vcache_cli.store import DiskStore
from vcache_cli.store import export as export_module
from vcache_cli.store.archive_parts import Origin

if TYPE_CHECKING:
    import pytest

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


def test_the_golden_levels_are_read_as_pixels(tmp_path: Path) -> None:
    root, wanted = make_store(tmp_path / "store"), golden_levels()
    path = root.path / root.layout.path_of(wanted.key)
    path.parent.mkdir()
    path.write_bytes(GOLDEN_LEVELS.read_bytes())
    found = DiskStore(root).get(wanted.key)
    assert found is not None
    assert sorted(found.tensors) == ["image_grid_thw", "pixel_values"]
    assert found.tensors["pixel_values"].dtype == "F32"
    assert found.numpy("pixel_values").dtype == np.float32
    assert (found.numpy("pixel_values") * 256).tolist() == [
        [0, 1, 2 - 256, 3 - 256, 254 - 512, 255 - 512],
        [128, 127, 9 - 256, 8 - 256, 7 - 512, 6 - 512],
    ]
    assert found.numpy("image_grid_thw").tolist() == [1, 1, 2]


def test_the_golden_entry_is_written_the_same() -> None:
    assert golden_entry().key == KEY
    assert golden_bytes(golden_entry()) == GOLDEN.read_bytes()
    assert golden_bytes(golden_levels()) == GOLDEN_LEVELS.read_bytes()


def test_the_reference_library_reads_the_golden_entry() -> None:
    with safe_open(GOLDEN, "np") as file:
        assert list(file.keys()) == ["features", "image_grid_thw", "mask", "pooled", "scale"]
        assert file.get_tensor("pooled").tolist() == [1.0, -2.0]
        assert file.get_tensor("image_grid_thw").tolist() == [[1, 2, 3]]
        assert file.metadata()["vcache.format"] == "1"


def test_the_reference_library_reads_the_golden_levels() -> None:
    with safe_open(GOLDEN_LEVELS, "np") as file:
        assert list(file.keys()) == ["image_grid_thw", "pixel_values", "pixel_values.lut"]
        assert file.get_tensor("pixel_values").dtype == "u1"
        assert file.metadata()["vcache.format"] == "2"
        assert file.metadata()["vcache.channel_axis"] == "1"
        assert file.metadata()["vcache.channel_stride"] == "2"


def test_the_golden_export_is_taken(tmp_path: Path) -> None:
    archive = io.BytesIO(GOLDEN_EXPORT.read_bytes())
    result = import_archive(archive, store=tmp_path / "store", options=WarmOptions())
    assert result.error is None
    assert result.counts == {"stored": 2}
    found = sorted(path.read_bytes() for path in (tmp_path / "store").glob("??/*.safetensors"))
    assert found == sorted((GOLDEN.read_bytes(), GOLDEN_LEVELS.read_bytes()))


def test_the_golden_export_is_written_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the version of vcache, which the manifest tells."""
    wanted = GOLDEN_EXPORT.read_bytes()
    version = json.loads(wanted[512:].partition(b"\n")[0])["vcache_version"]
    monkeypatch.setattr(export_module, "Origin", partial(Origin, vcache_version=version))
    assert golden_export(tmp_path) == wanted
