"""Quantised weights are read as the matrices that they stand for, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from samples.make_tiny_checkpoints import make_checkpoint
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.encode import load_encoder, numpy_backend, siglip
from vcache_cli.errors import MissingWeightsError, ModelError
from vcache_cli.items import Pixels

Tensors = dict[str, NDArray[Any]]
LAYER = "vision_model.encoder.layers.0.mlp.fc1"


def quantise(matrix: NDArray[np.float32], group_size: int, bits: int) -> Tensors:
    """Words, scales and biases, after the definition."""
    groups = matrix.reshape(len(matrix), -1, group_size)
    low = groups.min(axis=-1, keepdims=True)
    scale = np.maximum(groups.max(axis=-1, keepdims=True) - low, 1e-6) / (2**bits - 1)
    levels = np.rint((groups - low) / scale).astype(np.uint64).reshape(len(matrix), -1, 32 // bits)
    words = (levels << np.arange(0, 32, bits, dtype=np.uint64)).sum(axis=-1, dtype=np.uint64)
    return {
        "weight": words.astype(np.uint32),
        "scales": scale[..., 0].astype(np.float16),
        "biases": low[..., 0].astype(np.float16),
    }


def quantised_folder(folder: Path, rules: dict[str, Any], *, bits: int = 4) -> Path:
    """A tiny checkpoint, one layer of which is quantised."""
    make_checkpoint(folder)
    path = folder / "model.safetensors"
    tensors = load_file(path)
    parts = quantise(tensors.pop(f"{LAYER}.weight"), 32, bits)
    save_file(tensors | {f"{LAYER}.{name}": part for name, part in parts.items()}, path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization": rules}))
    return folder


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_a_quantised_layer_is_the_matrix_that_it_stands_for(bits: int, tmp_path: Path) -> None:
    plain = open_checkpoint(str(make_checkpoint(tmp_path / "plain"))).read(f"{LAYER}.weight")
    rules = {"group_size": 64, "bits": 4, LAYER: {"group_size": 32, "bits": bits}}
    checkpoint = open_checkpoint(str(quantised_folder(tmp_path / "q", rules, bits=bits)))
    place = checkpoint.tensors[f"{LAYER}.weight"]
    assert (place.dtype, place.shape) == ("F32", plain.shape)
    assert f"{LAYER}.scales" not in checkpoint.tensors
    found, spread = checkpoint.read(f"{LAYER}.weight").numpy(), np.ptp(plain.numpy())
    assert np.abs(found - plain.numpy()).max() <= 0.51 * spread / (2**bits - 1) + 1e-3


def test_a_quantised_tower_computes(tmp_path: Path) -> None:
    folder = quantised_folder(tmp_path / "q", {"group_size": 32, "bits": 8}, bits=8)
    pixels = [Pixels({"pixel_values": np.ones((3, 64, 64), np.float32)}, 64)]
    plain, found = (
        load_encoder(open_checkpoint(str(each)), siglip.TOWER, numpy_backend.BACKEND).encode(pixels)
        for each in (make_checkpoint(tmp_path / "plain"), folder)
    )
    a, b = (each[0].tensors["features"] for each in (plain, found))
    assert 0 < np.abs(a - b).max() < 0.05 * np.abs(a).max()


@pytest.mark.needs_mlx
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("group_size", [32, 64, 128])
def test_it_is_what_mlx_makes_of_it(bits: int, group_size: int, tmp_path: Path) -> None:
    import mlx.core as mx

    matrix = np.random.default_rng(bits).standard_normal((6, 256), dtype=np.float32)
    words, scales, biases = mx.quantize(mx.array(matrix), group_size=group_size, bits=bits)
    expected = mx.dequantize(words, scales, biases, group_size=group_size, bits=bits)
    parts = {"x.weight": words, "x.scales": scales, "x.biases": biases}
    save_file({name: np.asarray(x) for name, x in parts.items()}, tmp_path / "model.safetensors")
    rules = {"quantization": {"group_size": group_size, "bits": bits, "mode": "affine"}}
    (tmp_path / "config.json").write_text(json.dumps(rules))
    found = open_checkpoint(str(tmp_path)).read("x.weight").numpy()
    assert np.abs(found - np.asarray(expected)).max() <= 1e-6 * np.abs(found).max()


@pytest.mark.parametrize(
    "rules",
    [
        {"group_size": 32, "bits": 3},
        {"group_size": 32, "bits": 8},
        {"group_size": 64, "bits": 4},
        {"group_size": 32, "bits": 4, "mode": "mxfp4"},
        {"group_size": "32", "bits": 4},
        {"group_size": True, "bits": 4},
        {"group_size": 0, "bits": 4},
        {"quant_method": "gptq"},
    ],
)
def test_another_quantisation_is_refused_by_file_and_tensor(
    rules: dict[str, Any], tmp_path: Path
) -> None:
    checkpoint = open_checkpoint(str(quantised_folder(tmp_path / "q", rules)))
    with pytest.raises(ModelError) as caught:
        siglip.TOWER.plan(checkpoint, "hidden")
    assert str(tmp_path / "q" / "model.safetensors") in caught.value.message
    assert f"expected tensor `{LAYER}.weight` [64, 32] in F32, F16 or BF16" in caught.value.message
    assert "in U32" in caught.value.message
    assert json.dumps(rules) in caught.value.hint


def test_a_missing_file_counts_only_where_it_is_needed(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "m", shards=4)
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())["weight_map"]
    path.write_text(json.dumps({"weight_map": index | {"gone": "model-gone.safetensors"}}))
    checkpoint = open_checkpoint(str(folder))
    assert siglip.TOWER.plan(checkpoint, "hidden").tensors
    with pytest.raises(MissingWeightsError, match=r"`gone` in model-gone\.safetensors") as caught:
        checkpoint.read("gone")
    assert caught.value.files == ("model-gone.safetensors",)


def test_a_missing_file_that_is_needed_is_named_with_the_others(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "m", shards=4)
    names = sorted(path.name for path in folder.glob("model-*"))
    for name in names[1:]:
        (folder / name).unlink()
    with pytest.raises(MissingWeightsError) as caught:
        siglip.TOWER.plan(open_checkpoint(str(folder)), "hidden")
    assert caught.value.exit_code == 15
    assert set(caught.value.files) <= set(names[1:])
    assert caught.value.files


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_weights_that_are_not_finite_are_refused_by_name(
    value: float, dtype: type[np.floating[Any]], tmp_path: Path
) -> None:
    folder = make_checkpoint(tmp_path / "m")
    tensors = load_file(folder / "model.safetensors")
    tensors[f"{LAYER}.bias"] = np.full_like(tensors[f"{LAYER}.bias"], value).astype(dtype)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ModelError, match=f"finite numbers in `{LAYER}.bias`"):
        load_encoder(open_checkpoint(str(folder)), siglip.TOWER, numpy_backend.BACKEND)
