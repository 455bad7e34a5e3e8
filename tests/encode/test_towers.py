"""What a tower finds in a checkpoint, whatever its layout, and what it says it lacks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.encode import clip, load_encoder, numpy_backend, siglip
from vcache_cli.encode.encoder import TowerEncoder
from vcache_cli.errors import ModelError
from vcache_cli.items import Pixels
from vcache_cli.protocols import Tower, TowerPlan

Config = dict[str, Any]
Tensors = dict[str, NDArray[Any]]
Folders = Callable[..., Path]
Rebuild = Callable[[Config, Tensors], tuple[Config, Tensors]]

TOWERS: dict[str, Tower] = {"siglip": siglip.TOWER, "clip": clip.TOWER}
VISION = "vision_model."


def plan(family: str, folder: Path) -> TowerPlan:
    """What the tower would read."""
    return TOWERS[family].plan(open_checkpoint(str(folder)), "hidden")


def load(family: str, folder: Path) -> TowerEncoder:
    """On numpy."""
    return load_encoder(open_checkpoint(str(folder)), TOWERS[family], numpy_backend.BACKEND)


def vision_only(tensors: Tensors, prefix: str) -> Tensors:
    """The vision tower's tensors under another prefix."""
    vision = {name: array for name, array in tensors.items() if name.startswith(VISION)}
    return {prefix + name.removeprefix(VISION): array for name, array in vision.items()}


def alone(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
    return config["vision_config"], vision_only(tensors, VISION)


def bare(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
    return config["vision_config"], vision_only(tensors, "")


def inside(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
    rest = {"language_model.embed_tokens.weight": np.zeros((4, 2), np.float16)}
    moved = vision_only(tensors, "vision_tower.vision_model.")
    return {"model_type": "big", "vision_config": config["vision_config"]}, moved | rest


def deep_inside(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
    moved = vision_only(tensors, "model.vision_tower.vision_model.")
    return {"vision_config": config["vision_config"]}, moved


def beside_another(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
    """A second tower of another size: only one fits the configuration."""
    other = {"other.embeddings.patch_embedding.weight": np.zeros((4, 3, 8, 8), np.float32)}
    return config, tensors | other


def old_style(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
    """Older CLIP checkpoints say it twice, and the second counts."""
    wrong = {"model_type": "clip_vision_model", "hidden_size": 1}
    kind = {"model_type": config["vision_config"]["model_type"]}
    said = {k: v for k, v in config["vision_config"].items() if k != "model_type"}
    return {**config, "vision_config": {**wrong, **kind}, "vision_config_dict": said}, tensors


@pytest.mark.parametrize("family", TOWERS)
@pytest.mark.parametrize("layout", [alone, bare, inside, deep_inside, beside_another, old_style])
def test_a_tower_is_the_same_wherever_it_lies(
    family: str,
    layout: Rebuild,
    checkpoint_folder: Folders,
    pictures: list[Pixels],
) -> None:
    whole = load(family, checkpoint_folder(family))
    moved = load(family, checkpoint_folder(family, layout))
    assert moved.fingerprint == whole.fingerprint
    for one, other in zip(whole.encode(pictures), moved.encode(pictures), strict=True):
        assert one.tensors.keys() == other.tensors.keys() == {"features", "pooled"}
        for name in one.tensors:
            assert np.array_equal(one.tensors[name], other.tensors[name])


def test_clip_pools_the_class_token(checkpoint_folder: Folders, pictures: list[Pixels]) -> None:
    for item in load("clip", checkpoint_folder("clip")).encode(pictures):
        assert item.num_tokens == 65
        assert np.array_equal(item.tensors["pooled"], item.tensors["features"][0])


def test_siglip_has_one_token_for_each_patch(
    checkpoint_folder: Folders, pictures: list[Pixels]
) -> None:
    for item in load("siglip", checkpoint_folder("siglip")).encode(pictures):
        assert item.tensors["features"].shape == (64, 32)
        assert item.tensors["pooled"].shape == (32,)


def headless(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
    return config, {name: array for name, array in tensors.items() if ".head." not in name}


def head_switched_off(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
    config["vision_config"]["vision_use_head"] = False
    return config, tensors


@pytest.mark.parametrize("rebuild", [headless, head_switched_off])
def test_siglip_without_its_head_has_features_only(
    rebuild: Rebuild,
    checkpoint_folder: Folders,
    pictures: list[Pixels],
) -> None:
    """As inside language models, where nothing pools."""
    encoder = load("siglip", checkpoint_folder("siglip", rebuild))
    assert encoder.plan.settings["pooling_head"] is False
    assert encoder.encode(pictures[:1])[0].tensors.keys() == {"features"}


def test_only_vision_tensors_are_planned(tiny_siglip: Path) -> None:
    found = plan("siglip", tiny_siglip)
    there = open_checkpoint(str(tiny_siglip)).tensors
    assert set(found.tensors.values()) == {name for name in there if name.startswith(VISION)}
    assert found.shapes.keys() == found.tensors.keys()


def test_what_a_config_leaves_out_is_filled_in(checkpoint_folder: Folders) -> None:
    def sparse(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
        for name in ("hidden_act", "layer_norm_eps", "num_channels"):
            del config["vision_config"][name]
        return config, tensors

    for family in TOWERS:
        full = plan(family, checkpoint_folder(family)).settings
        assert plan(family, checkpoint_folder(family, sparse)).settings == full


def test_what_does_not_count_changes_no_fingerprint(checkpoint_folder: Folders) -> None:
    def renamed(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
        config["vision_config"]["attention_dropout"] = 0.5
        return config | {"transformers_version": "9", "_name_or_path": "/x"}, tensors

    same = load("siglip", checkpoint_folder("siglip", renamed))
    assert same.fingerprint == load("siglip", checkpoint_folder("siglip")).fingerprint


def vision(**changes: object) -> Rebuild:
    """Changes the vision part of the configuration."""

    def rebuild(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
        return config | {"vision_config": config["vision_config"] | changes}, tensors

    return rebuild


def no_vision(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
    del config["vision_config"]
    return config, tensors


def tensor(name: str, array: NDArray[Any] | None) -> Rebuild:
    """Puts another tensor in the place of one, or none."""

    def rebuild(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
        rest = {each: value for each, value in tensors.items() if each != name}
        return config, rest if array is None else rest | {name: array}

    return rebuild


def text_only(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
    return config, {name: array for name, array in tensors.items() if name.startswith("text")}


def twice(config: Config, tensors: Tensors) -> tuple[Config, Tensors]:
    return config, tensors | vision_only(tensors, "second.")


Q_BIAS = f"{VISION}encoder.layers.1.self_attn.q_proj.bias"
NORM = f"{VISION}post_layernorm.weight"
REFUSALS: dict[str, tuple[Rebuild, str]] = {
    "no vision": (no_vision, "found `model_type` `siglip` without a vision part"),
    "other family": (vision(model_type="qwen2_5_vl"), "a siglip vision part, found `qwen2_5_vl`"),
    "activation": (vision(hidden_act="mish"), "found 'mish'"),
    "text": (vision(hidden_size="32"), "expected `hidden_size` like 768, found '32'"),
    "zero": (vision(num_hidden_layers=0), "found 0"),
    "true": (vision(patch_size=True), "found True"),
    "list": (vision(image_size=[64, 32]), "found [64, 32]"),
    "null": (vision(layer_norm_eps=None), "found None"),
    "heads": (vision(num_attention_heads=5), "found 5 heads of 32 channels"),
    "patch": (vision(patch_size=65), "patches of 65 in 64 pixels"),
    "text only": (text_only, "expected one tensor `...embeddings.patch_embedding.weight` among"),
    "twice": (twice, "`second.embeddings.patch_embedding.weight`, `vision_model.embeddings"),
    "missing": (tensor(Q_BIAS, None), f"expected tensor `{Q_BIAS}` [32], found no such tensor"),
    "misshapen": (
        tensor(Q_BIAS, np.zeros((33, 2), np.float32)),
        f"expected tensor `{Q_BIAS}` [32] in F32, F16 or BF16, found [33, 2] in F32",
    ),
    "quantised": (tensor(NORM, np.zeros(32, np.uint8)), "found [32] in U8"),
    "other size": (vision(image_size=128), "position_embedding.weight` [256, 32]"),
}


@pytest.mark.parametrize(("rebuild", "told"), REFUSALS.values(), ids=REFUSALS)
def test_what_does_not_fit_is_named_with_what_was_expected(
    rebuild: Rebuild,
    told: str,
    checkpoint_folder: Folders,
) -> None:
    with pytest.raises(ModelError) as caught:
        plan("siglip", checkpoint_folder("siglip", rebuild))
    assert told in caught.value.message
    assert caught.value.exit_code == 15
