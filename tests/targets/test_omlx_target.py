"""What a warm for oMLX puts under which key, and what it refuses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.checkpoint import Checkpoint
from vcache_cli.errors import EncodeError, ModelError, RefusedError, UsageError
from vcache_cli.items import Features, Frames, Pixels, Stage
from vcache_cli.protocols import Evidence
from vcache_cli.recipe import EncoderRecipe, Recipe
from vcache_cli.targets import OmlxTarget

TARGET = OmlxTarget()
RECIPE = Recipe(
    stage=Stage.FEATURES,
    target="omlx",
    profile="omlx",
    profile_revision=1,
    family="qwen2_5_vl",
    family_revision=1,
    settings={},
    target_options={"model_name": "/models/one", "max_side": 2048},
    encoder=EncoderRecipe("qwen2_5_vl", 1, "f" * 64, "projected", "F32", "BF16"),
)
DEEP = {"vision_config": {"deepstack_visual_indexes": [0, 2]}}


def model(family: str, more: Mapping[str, Any] | None = None) -> Checkpoint:
    config = {"model_type": family, **(more or {})}
    return Checkpoint(Path("/models/one"), "one", config, {}, {})


def options(family: str, /, *, of: Mapping[str, Any] | None = None, **given: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
    return TARGET.options(given, model(family, of))


def evidence(rgb: np.ndarray[Any, np.dtype[np.uint8]], **pixels: Any) -> Evidence:  # noqa: ANN401  arrays
    made = Pixels(dict(pixels), 1) if pixels else None
    return Evidence("a" * 64, Frames(rgb[np.newaxis]), made)


def picture(height: int, width: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def hashed(*pictures: np.ndarray[Any, np.dtype[np.uint8]]) -> str:
    """By the server's published rule."""
    sha256 = hashlib.sha256()
    for rgb in pictures:
        sha256.update(f"{rgb.shape[1]}x{rgb.shape[0]}".encode("ascii"))
        sha256.update(bytes(rgb.flatten().tolist()))
    return sha256.hexdigest()


def keyed(image: str, name: str = "/models/one") -> str:
    return hashlib.sha256(f"{name}:{image}".encode()).hexdigest()


@given(
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    name=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1),
)
def test_the_key_is_of_model_path_and_pixels(height: int, width: int, name: str) -> None:
    rgb = picture(height, width)
    recipe = replace(RECIPE, target_options={"model_name": name, "max_side": 2048})
    assert TARGET.key(recipe, evidence(rgb)) == keyed(hashed(rgb), name)


def test_pixels_that_lie_elsewhere_in_memory_are_the_same() -> None:
    turned = picture(4, 6).swapaxes(0, 1)
    assert not turned.flags.c_contiguous
    assert TARGET.key(RECIPE, evidence(turned)) == keyed(hashed(turned))


def test_a_request_s_key_is_of_its_pictures_in_order() -> None:
    one, two = picture(2, 3), picture(4, 1, seed=1)
    members = evidence(one), evidence(two)
    group, turned = (Evidence("b" * 64, members=each) for each in (members, members[::-1]))
    assert TARGET.key(RECIPE, group) == keyed(hashed(one, two))
    assert TARGET.key(RECIPE, turned) == keyed(hashed(two, one))
    alone = Evidence("b" * 64, members=members[:1])
    assert TARGET.key(RECIPE, alone) == TARGET.key(RECIPE, members[0])


def test_the_file_says_what_the_server_indexes_by() -> None:
    rgb = picture(2, 3)
    grid = np.array([1, 4, 6], np.int64)
    known = TARGET.metadata(RECIPE, evidence(rgb, image_grid_thw=grid))
    assert json.loads(known.pop("grid_thw")) == [1, 4, 6]
    assert known == {"model_name": "/models/one", "image_hash": hashed(rgb)}
    flat = TARGET.metadata(RECIPE, evidence(rgb, pixel_values=np.zeros((1, 2), np.float32)))
    assert "grid_thw" not in flat


def test_a_request_has_no_one_grid() -> None:
    grid = np.array([1, 4, 6], np.int64)
    members = tuple(evidence(picture(2, 3, seed), image_grid_thw=grid) for seed in range(2))
    known = TARGET.metadata(RECIPE, Evidence("b" * 64, members=members))
    assert sorted(known) == ["image_hash", "model_name"]


def rows(count: int, width: int = 4) -> Features:
    values = np.arange(count * width, dtype=np.float32).reshape(count, width)
    return Features({"features": values})


@pytest.mark.parametrize(
    ("family", "counts", "shape"),
    [
        ("qwen2_vl", [3], (3, 4)),
        ("qwen2_5_vl", [3], (3, 4)),
        ("qwen3_vl", [3], (3, 4)),
        ("qwen3_5", [3, 5], (8, 4)),
        ("gemma4_unified", [3, 5], (8, 4)),
        ("llava", [3], (1, 3, 4)),
        ("llava", [3, 3], (2, 3, 4)),
        ("gemma4", [3], (1, 3, 4)),
        ("gemma4", [3, 5], (1, 8, 4)),
    ],
)
def test_features_have_the_axes_that_the_server_joins(
    family: str, counts: list[int], shape: tuple[int, ...]
) -> None:
    recipe = replace(RECIPE, family=family)
    values = [rows(count) for count in counts]
    made = TARGET.group_tensors(recipe, values)
    assert list(made) == ["feature"]
    assert (made["feature"].shape, made["feature"].dtype) == (shape, "BF16")
    wanted = np.concatenate([each.tensors["features"] for each in values])
    assert made["feature"].numpy().reshape(-1, 4).tolist() == wanted.tolist()
    if len(values) == 1:
        assert TARGET.tensors(recipe, values[0])["feature"].data == made["feature"].data


def test_features_with_an_axis_of_images_keep_it() -> None:
    value = Features({"features": np.zeros((1, 3, 4), np.float32)})
    for family in ("llava", "gemma4"):
        made = TARGET.tensors(replace(RECIPE, family=family), value)
        assert made["feature"].shape == (1, 3, 4)


def test_deepstack_features_are_what_the_server_drops() -> None:
    value = Features(
        {"features": np.ones((3, 4), np.float32), "deepstack_0": rows(3).tensors["features"]}
    )
    made = TARGET.tensors(replace(RECIPE, family="qwen3_vl"), value)
    assert made["feature"].numpy().tolist() == [[1.0] * 4] * 3


@pytest.mark.parametrize(
    ("family", "values"),
    [("qwen2_vl", [rows(3), rows(3, width=5)]), ("llava", [rows(3), rows(4)])],
    ids=["widths", "tokens"],
)
def test_pictures_of_one_request_have_to_fit_together(family: str, values: list[Features]) -> None:
    with pytest.raises(EncodeError, match="of one request") as caught:
        TARGET.group_tensors(replace(RECIPE, family=family), values)
    assert caught.value.item_kind == "mixed_shapes"


def test_a_feature_beyond_the_stored_dtype_is_refused() -> None:
    encoder = EncoderRecipe("qwen2_5_vl", 1, "f" * 64, "projected", "F32", "F16")
    value = Features({"features": np.full((1, 2), 7e4, np.float32)})
    with pytest.raises(EncodeError, match="too large for F16"):
        TARGET.tensors(replace(RECIPE, encoder=encoder), value)


def test_the_model_s_name_is_its_absolute_path_where_none_is_given() -> None:
    assert options("qwen2_vl") == {"model_name": "/models/one", "max_side": 2048}
    assert options("qwen2_vl", model_name="m", max_side=0) == {"model_name": "m", "max_side": 0}


@pytest.mark.parametrize("side", [0, 1, 65_536])
def test_a_limit_of_the_longer_side_is_taken(side: int) -> None:
    assert options("llava", max_side=side)["max_side"] == side


@pytest.mark.parametrize("side", [-1, 65_537, 2048.0, "2048", True])
def test_what_is_no_limit_is_refused(side: object) -> None:
    with pytest.raises(UsageError, match="--max-side"):
        options("llava", max_side=side)


@pytest.mark.parametrize("name", ["", "a\0b", "\0", "~", "~/models/one", "/models/\udcff"])
def test_what_no_server_can_have_as_a_path_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        options("llava", model_name=name)
    assert "--model-name" in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("family", ["siglip", "gemma3", "pixtral", "internvl", "", "None"])
def test_families_that_the_server_never_looks_up_are_refused(family: str) -> None:
    with pytest.raises(ModelError, match="language model") as caught:
        options(family)
    assert "qwen3_5" in caught.value.hint


@pytest.mark.parametrize("family", ["qwen3_vl", "qwen3_vl_moe"])
def test_deepstack_is_dropped_only_knowingly(family: str) -> None:
    for of in (DEEP, {}, {"vision_config": None}):  # what is not said is not empty
        with pytest.raises(RefusedError, match="DeepStack") as caught:
            options(family, of=of)
        assert "--allow-lossy" in caught.value.hint
        assert options(family, of=of, allow_lossy=True)
    assert options(family, of={"vision_config": {"deepstack_visual_indexes": []}})


@pytest.mark.parametrize("version", [None, "0", "0.6", "0.6.4", "0.6.4.9", "0.5.99"])
def test_pictures_of_gemma4_alone_need_a_server_that_bears_them(version: str | None) -> None:
    for groups in (None, "also"):
        with pytest.raises(RefusedError, match="token counts") as caught:
            options("gemma4", omlx_version=version, groups=groups)
        assert "--groups" in caught.value.hint
    assert options("gemma4", omlx_version=version, groups="only")


@pytest.mark.parametrize("version", ["0.6.5", "0.6.10", "0.7", "1", "0.6.5.1"])
def test_a_newer_server_bears_them(version: str) -> None:
    assert options("gemma4", omlx_version=version)
    assert options("gemma4", omlx_version=version, groups="also")


@pytest.mark.parametrize(
    "version", ["", "new", "v0.6.5", "x.6.5", "0.6.5rc1", "0..6", "٣.6", "9" * 5000]
)
def test_what_is_no_version_is_refused_for_every_family(version: str) -> None:
    """`x.6.5` is not 6.5: nothing is guessed that would let harm through."""
    for family in ("gemma4", "qwen2_vl"):
        with pytest.raises(UsageError, match="--omlx-version"):
            options(family, omlx_version=version)


def test_a_mixture_of_experts_is_of_its_family() -> None:
    assert options("qwen3_5_moe")
