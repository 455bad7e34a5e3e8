"""Our towers over a grid against mlx-vlm's own, with the same weights."""

from __future__ import annotations

import importlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from samples.make_tiny_qwen import FAMILIES, make_checkpoint
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.encode import (
    load_encoder,
    mlx_ops,
    numpy_backend,
    qwen2_5_vl,
    qwen2_vl,
    qwen3_5,
    qwen3_vl,
)
from vcache_cli.items import Features, Pixels
from vcache_cli.protocols import Backend, Tower

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

LIMIT = 1e-4
"""Largest difference in float32, relative to the largest reference value."""

NARROW_LIMIT = 6e-2
"""The same where both sides compute in bfloat16."""

GRIDS = [(1, 2, 2), (1, 8, 8), (1, 6, 22), (1, 18, 10), (1, 14, 26)]
"""Five pictures: one token, whole windows, wider than high, higher than wide, cut windows."""

TOWERS: dict[str, Tower] = {
    "qwen2_vl": qwen2_vl.TOWER,
    "qwen2_5_vl": qwen2_5_vl.TOWER,
    "qwen3_vl": qwen3_vl.TOWER,
    "qwen3_5": qwen3_5.TOWER,
}
BACKENDS: dict[str, Backend] = {"numpy": numpy_backend.BACKEND, "mlx": mlx_ops.BACKEND}
Errors = defaultdict[str, list[float]]


@pytest.fixture(scope="module")
def errors() -> Iterator[Errors]:
    """Prints what was compared, when all is done."""
    found: Errors = defaultdict(list)
    yield found
    for pair, values in sorted(found.items()):
        print(
            f"\n{pair}: {len(values)} x {len(GRIDS)} sizes, "
            f"largest relative error {max(values):.2e}"
        )


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def their_tower(family: str, folder: Path) -> Any:  # noqa: ANN401  an MLX module
    """mlx-vlm's tower with the checkpoint's weights, named and turned by its own rules."""
    package = importlib.import_module(f"mlx_vlm.models.{family}")
    config = json.loads((folder / "config.json").read_text())
    vision = package.VisionConfig.from_dict(config["vision_config"])
    tower = package.VisionModel(vision)
    found = mx.load(str(folder / "model.safetensors"))
    assert isinstance(found, dict)
    prefix = "model.visual." if family.startswith("qwen3") else "visual."
    own = {name.removeprefix(prefix): v for name, v in found.items() if name.startswith(prefix)}
    tower.load_weights([*tower.sanitize(own).items()])
    return tower


def pictures(family: str) -> list[Pixels]:
    """Noise in each grid, as the processor lays it out."""
    rng, side = np.random.default_rng(5), 16 if family.startswith("qwen3") else 14
    return [
        Pixels(
            {
                "pixel_values": rng.standard_normal((h * w, 6 * side * side), dtype=np.float32),
                "image_grid_thw": np.array([t, h, w], np.int64),
            },
            h * w // 4,
        )
        for t, h, w in GRIDS
    ]


def reference(tower: Any, items: Sequence[Pixels]) -> dict[str, np.ndarray[Any, Any]]:  # noqa: ANN401
    """What mlx-vlm makes of one request's pictures, token by token."""
    dtype = tower.patch_embed.proj.weight.dtype
    patches = mx.array(np.concatenate([item.tensors["pixel_values"] for item in items]))
    grids = mx.array(np.stack([item.tensors["image_grid_thw"] for item in items]))
    found = tower(patches.astype(dtype), grids)
    features, stacked = found if isinstance(found, tuple) else (found, [])
    named = {f"deepstack_{number}": value for number, value in enumerate(stacked)}
    wide = {name: each.astype(mx.float32) for name, each in named.items()}
    return {
        name: np.asarray(value)
        for name, value in {"features": features.astype(mx.float32), **wide}.items()
    }


def largest_error(found: Sequence[Features], expected: Mapping[str, Any]) -> float:
    """The largest difference of any tensor, relative to its largest reference value."""
    worst = 0.0
    for name, value in expected.items():
        ours = np.concatenate([item.tensors[name] for item in found])
        assert ours.shape == value.shape
        worst = max(worst, float(np.abs(ours - value).max() / np.abs(value).max()))
    assert all(item.tensors.keys() == expected.keys() for item in found)
    return worst


@pytest.mark.parametrize("backend", BACKENDS)
def test_features_are_those_of_mlx_vlm(
    family: str, backend: str, tmp_path: Path, errors: Errors
) -> None:
    folder = make_checkpoint(tmp_path / "tiny", family=family, seed=3)
    tower, items = their_tower(family, folder), pictures(family)
    encoder = load_encoder(
        open_checkpoint(str(folder)), TOWERS[family], BACKENDS[backend], compute_dtype="F32"
    )
    for batch in (items, *([item] for item in items)):
        error = largest_error(encoder.encode(batch), reference(tower, batch))
        errors[f"{family}, {backend} against mlx-vlm, float32"].append(error)
        assert error < LIMIT


def test_features_in_bfloat16_are_near_those_of_mlx_vlm(
    family: str, tmp_path: Path, errors: Errors
) -> None:
    """Both sides round after each step, not after the same ones."""
    folder = make_checkpoint(tmp_path / "tiny", family=family, seed=3)
    tower, items = their_tower(family, folder), pictures(family)
    tower.set_dtype(mx.bfloat16)
    encoder = load_encoder(
        open_checkpoint(str(folder)), TOWERS[family], mlx_ops.BACKEND, compute_dtype="BF16"
    )
    error = largest_error(encoder.encode(items), reference(tower, items))
    errors[f"{family}, mlx against mlx-vlm, bfloat16"].append(error)
    assert error < NARROW_LIMIT


def test_a_checkpoint_of_mlx_vlm_is_the_same_tower(family: str, tmp_path: Path) -> None:
    """As its converter writes it: other names, and channels last in the patches."""
    folder = make_checkpoint(tmp_path / "tiny", family=family, seed=3)
    weights = tree_flatten({"vision_tower": their_tower(family, folder).parameters()})
    converted = tmp_path / "converted"
    converted.mkdir()
    mx.save_safetensors(str(converted / "model.safetensors"), dict(weights), {"format": "mlx"})
    (converted / "config.json").write_bytes((folder / "config.json").read_bytes())
    first, second = (
        load_encoder(open_checkpoint(str(each)), TOWERS[family], numpy_backend.BACKEND)
        for each in (folder, converted)
    )
    items = pictures(family)
    for one, other in zip(first.encode(items), second.encode(items), strict=True):
        assert one.tensors.keys() == other.tensors.keys()
        for name, value in one.tensors.items():
            assert np.array_equal(value, other.tensors[name])
