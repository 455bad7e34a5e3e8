"""Towers over a grid: one pass for pictures of all sizes, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

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
from vcache_cli.encode.encoder import TowerEncoder
from vcache_cli.encode.grid_tower import GridTower
from vcache_cli.errors import EncodeError, ModelError
from vcache_cli.items import Features, Pixels
from vcache_cli.protocols import Backend, TowerPlan

Config = dict[str, Any]
Tensors = dict[str, NDArray[Any]]
Rebuild = Callable[[Config, Tensors], tuple[Config, Tensors]]

TOWERS: dict[str, GridTower] = {
    "qwen2_vl": qwen2_vl.TOWER,
    "qwen2_5_vl": qwen2_5_vl.TOWER,
    "qwen3_vl": qwen3_vl.TOWER,
    "qwen3_5": qwen3_5.TOWER,
}
GRIDS = [(1, 2, 2), (1, 8, 8), (1, 4, 10), (1, 10, 6), (2, 4, 2)]
NEAR = 1e-5


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("tiny") / family, family=family)


def rebuilt(folder: Path, rebuild: Rebuild) -> Path:
    """Another checkpoint beside it."""
    config = json.loads((folder / "config.json").read_text())
    config, tensors = rebuild(config, load_file(folder / "model.safetensors"))
    other = folder.parent / f"other-{len([*folder.parent.iterdir()])}"
    other.mkdir()
    (other / "config.json").write_text(json.dumps(config))
    save_file(tensors, other / "model.safetensors")
    return other


def load(family: str, folder: Path, backend: Backend = numpy_backend.BACKEND) -> TowerEncoder:
    """In float32."""
    checkpoint = open_checkpoint(str(folder))
    return load_encoder(checkpoint, TOWERS[family], backend, compute_dtype="F32")


def plan(family: str, folder: Path) -> TowerPlan:
    """What the tower would read."""
    return TOWERS[family].plan(open_checkpoint(str(folder)))


def picture(family: str, grid: tuple[int, ...], seed: int = 0) -> Pixels:
    """Noise in a grid."""
    side = 16 if family.startswith("qwen3") else 14
    num_patches = int(np.prod(grid))
    rng = np.random.default_rng([seed, *grid])
    patches = rng.standard_normal((num_patches, 6 * side * side), dtype=np.float32)
    tensors: Tensors = {"pixel_values": patches, "image_grid_thw": np.array(grid, np.int64)}
    return Pixels(tensors, num_patches // 4)


def assert_near(found: list[Features], expected: list[Features]) -> None:
    """Every tensor, relative to its largest value."""
    for one, other in zip(found, expected, strict=True):
        assert one.tensors.keys() == other.tensors.keys()
        for name, value in other.tensors.items():
            assert one.tensors[name].shape == value.shape
            assert np.abs(one.tensors[name] - value).max() < NEAR * np.abs(value).max()


def test_pictures_of_all_sizes_pass_together_as_they_do_alone(family: str, folder: Path) -> None:
    encoder = load(family, folder)
    items = [picture(family, grid) for grid in GRIDS]
    assert_near(encoder.encode(items), [encoder.encode([item])[0] for item in items])
    assert_near(encoder.encode(items[::-1])[::-1], encoder.encode(items))


def test_every_token_is_as_wide_as_the_language_model(family: str, folder: Path) -> None:
    encoder = load(family, folder)
    assert encoder.pixel_shape is None
    for item in (picture(family, grid) for grid in GRIDS):
        (found,) = encoder.encode([item])
        shapes = {name: array.shape for name, array in found.tensors.items()}
        assert shapes == encoder.feature_shapes(item.num_tokens)
        assert shapes["features"] == (item.num_tokens, 48)
        assert len(shapes) == (3 if family == "qwen3_vl" else 1)


def test_frames_of_a_clip_do_not_see_each_other(family: str, folder: Path) -> None:
    clip = picture(family, (2, 4, 6))
    halves = [
        Pixels(
            {
                "pixel_values": clip.tensors["pixel_values"][begin : begin + 24],
                "image_grid_thw": np.array([1, 4, 6], np.int64),
            },
            6,
        )
        for begin in (0, 24)
    ]
    encoder = load(family, folder)
    joined = Features(
        {
            name: np.concatenate([part.tensors[name] for part in encoder.encode(halves)])
            for name in encoder.feature_shapes(1)
        }
    )
    assert_near(encoder.encode([clip]), [joined])


@pytest.mark.needs_mlx
def test_mlx_and_numpy_agree(family: str, folder: Path) -> None:
    items = [picture(family, grid) for grid in GRIDS]
    on_mlx = load(family, folder, mlx_ops.BACKEND).encode(items)
    assert_near(on_mlx, load(family, folder).encode(items))


def moved(prefix: str, *, channels_last: bool = False) -> Rebuild:
    """The tower under another prefix, and in MLX's layout."""

    def rebuild(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
        found: Tensors = {}
        for name, array in tensors.items():
            before, visual, own = name.partition("visual.")
            found[prefix + own if visual else before] = array
        if channels_last:
            patches = f"{prefix}patch_embed.proj.weight"
            found[patches] = np.ascontiguousarray(found[patches].transpose(0, 2, 3, 4, 1))
        return config, found

    return rebuild


@pytest.mark.parametrize(
    "rebuild",
    [
        moved("visual."),
        moved("model.visual."),
        moved("model.language_model.visual."),
        moved("vision_tower.", channels_last=True),
    ],
    ids=["first", "later", "deep", "mlx"],
)
def test_a_tower_is_the_same_wherever_it_lies(family: str, folder: Path, rebuild: Rebuild) -> None:
    whole, other = load(family, folder), load(family, rebuilt(folder, rebuild))
    item = picture(family, (1, 4, 6))
    for name, value in whole.encode([item])[0].tensors.items():
        assert np.array_equal(other.encode([item])[0].tensors[name], value)


def test_a_tower_alone_and_that_of_a_mixture_are_known(family: str, folder: Path) -> None:
    def alone(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
        return config["vision_config"] | {"model_type": f"{family}_vision"}, tensors

    def mixture(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
        vision = config["vision_config"] | {"model_type": f"{family}_moe"}
        return config | {"model_type": f"{family}_moe", "vision_config": vision}, tensors

    for rebuild in (alone, mixture):
        assert plan(family, rebuilt(folder, rebuild)).settings == plan(family, folder).settings


def test_only_vision_tensors_are_planned(family: str, folder: Path) -> None:
    there = open_checkpoint(str(folder)).tensors
    expected = {name for name in there if "visual." in name}
    assert {*plan(family, folder).tensors.values()} == expected


def vision(**changes: object) -> Rebuild:
    """Changes the vision part of the configuration; None takes a setting away."""

    def rebuild(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
        changed = config["vision_config"] | changes
        kept = {name: value for name, value in changed.items() if value is not None}
        return config | {"vision_config": kept}, tensors

    return rebuild


def without(name: str) -> Rebuild:
    """A checkpoint that lacks a tensor."""

    def rebuild(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
        return config, {each: array for each, array in tensors.items() if each != name}

    return rebuild


def test_what_a_config_leaves_out_is_filled_in(tmp_path: Path, family: str, folder: Path) -> None:
    sparse = rebuilt(
        folder, vision(hidden_act=None, in_channels=None, in_chans=None, window_size=None)
    )
    assert plan(family, sparse).settings == plan(family, folder).settings


def test_other_names_of_depth_and_heads_are_taken(family: str, folder: Path) -> None:
    other = vision(depth=None, num_heads=None, num_hidden_layers=4, num_attention_heads=4)
    assert plan(family, rebuilt(folder, other)).settings == plan(family, folder).settings


QKV = "visual.blocks.3.attn.qkv.weight"
REFUSALS: dict[str, tuple[str, Rebuild, str]] = {
    "missing": (
        "qwen2_5_vl",
        without(QKV),
        f"expected tensor `{QKV}` [96, 32], found no such tensor",
    ),
    "misshapen": (
        "qwen2_vl",
        vision(hidden_size=64),
        "expected tensor `visual.merger.mlp.2.weight` [64, 128]",
    ),
    "no positions": (
        "qwen3_5",
        without("model.visual.pos_embed.weight"),
        "expected tensor `model.visual.pos_embed.weight` [64, 32], found no such tensor",
    ),
    "other family": (
        "qwen2_vl",
        vision(model_type="qwen3_vl"),
        "expected a `vision_config` of qwen2_vl",
    ),
    "activation": ("qwen3_vl", vision(hidden_act="relu6"), "found 'relu6'"),
    "sides": ("qwen2_vl", vision(patch_size=[14, 14]), "expected `patch_size` like 14"),
    "zero": ("qwen2_vl", vision(depth=0), "expected `depth` like 32, found 0"),
    "deep": ("qwen2_vl", vision(depth=10**6), "expected `depth` of at most 1000, found 1000000"),
    "heads": ("qwen2_5_vl", vision(num_heads=16), "found 16 heads of 32 channels"),
    "window": ("qwen2_5_vl", vision(window_size=27), "at least a token's 28 pixels, found 27"),
    "layers": (
        "qwen3_vl",
        vision(deepstack_visual_indexes=[0, 4]),
        "expected `deepstack_visual_indexes` as different layers below 4, found [0, 4]",
    ),
    "layer": (
        "qwen3_vl",
        vision(deepstack_visual_indexes=[0, True]),
        "expected `deepstack_visual_indexes` like [8, 16, 24]",
    ),
    "rotary": (
        "qwen3_5",
        vision(rope_parameters={"rope_type": "yarn", "rope_theta": 10.0}),
        "expected axial rotary positions",
    ),
    "rotary text": ("qwen3_5", vision(rope_parameters="x"), "expected `rope_parameters` as an obj"),
    "rotary base": (
        "qwen3_5",
        vision(rope_parameters={"rope_theta": float("inf")}),
        "of a base above 1",
    ),
}


@pytest.mark.parametrize(("family", "rebuild", "told"), REFUSALS.values(), ids=REFUSALS)
def test_what_does_not_fit_is_named_with_what_was_expected(
    family: str, rebuild: Rebuild, told: str, tmp_path: Path
) -> None:
    folder = make_checkpoint(tmp_path / "tiny", family=family)
    with pytest.raises(ModelError) as caught:
        plan(family, rebuilt(folder, rebuild))
    assert told in caught.value.message
    assert caught.value.exit_code == 15


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"image_grid_thw": None}, "expected `image_grid_thw` [3], got none"),
        ({"image_grid_thw": np.ones((1, 3), np.int64)}, "[3], got [1, 3]"),
        ({"image_grid_thw": np.array([1, 3, 8])}, "whole blocks of 2 x 2 patches"),
        ({"image_grid_thw": np.array([1, 0, 8])}, "whole blocks of 2 x 2 patches"),
        ({"image_grid_thw": np.array([1, 4, 8])}, "expected `pixel_values` [32, 1176], got [24, "),
        ({"pixel_values": None}, "expected `pixel_values` [24, 1176], got none"),
        ({"pixel_values": np.zeros((24, 588), np.float32)}, "got [24, 588]"),
    ],
)
def test_pixels_that_do_not_fill_their_grid_are_refused(
    change: dict[str, Any], told: str, tmp_path: Path
) -> None:
    encoder = load("qwen2_vl", make_checkpoint(tmp_path / "tiny", family="qwen2_vl"))
    good = picture("qwen2_vl", (1, 4, 6))
    changed = {**good.tensors, **change}
    tensors = {name: array for name, array in changed.items() if array is not None}
    with pytest.raises(EncodeError) as caught:
        encoder.encode([good, Pixels(tensors, 6)])
    assert told in caught.value.message
    assert caught.value.item_kind == "pixels_shape"
