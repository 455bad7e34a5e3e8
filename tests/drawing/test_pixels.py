"""Pixels become the picture again that they were made of, whatever their form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli import registry
from vcache_cli.drawing import levels_of, pictures_of
from vcache_cli.items import Frames
from vcache_cli.levels import LevelTable
from vcache_cli.preprocess.lookup import value_table

PROFILE = registry.load("profiles", "transformers-pil-5")
COLOURS: dict[str, Any] = {
    "do_convert_rgb": True,
    "do_rescale": True,
    "do_normalize": True,
    "rescale_factor": 1 / 255,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
PATCHES = {
    **COLOURS,
    "do_resize": True,
    "resample": 3,
    "min_pixels": 56 * 56,
    "max_pixels": 28 * 28 * 100,
    "patch_size": 14,
    "merge_size": 2,
    "temporal_patch_size": 2,
}


def noise(height: int, width: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(3).integers(0, 256, (1, height, width, 3), np.uint8)


@pytest.mark.parametrize("compact", [True, False])
def test_patches_lie_where_they_were_cut(compact: bool) -> None:  # noqa: FBT001
    rgb = noise(84, 140)  # whole cells: nothing is resized
    make = registry.load("families", "qwen2_5_vl").preprocessor(PATCHES, PROFILE)
    pixels = make.compact(Frames(rgb)) if compact else make(Frames(rgb))
    values = pixels.tensors["pixel_values"]
    table = LevelTable(value_table(PATCHES), 1, values.shape[1] // 3)
    levels = levels_of(values, table)
    grid = (1, 6, 10)
    assert tuple(pixels.tensors["image_grid_thw"]) == grid
    pictures = pictures_of(levels, grid, PATCHES)
    assert pictures is not None
    assert np.array_equal(pictures[0], rgb[0])
    assert np.array_equal(pictures[1], rgb[0])


def test_a_clip_gives_its_frames_in_their_order() -> None:
    levels = np.arange(8 * 24, dtype=np.uint8).reshape(8, 24)
    settings = {"merge_size": 2, "temporal_patch_size": 2, "patch_size": 2}
    pictures = pictures_of(levels, (2, 2, 2), settings)
    assert pictures is not None
    assert pictures.shape == (4, 4, 4, 3)
    assert pictures[0, 0, 0].tolist() == levels[0].reshape(3, 2, 4)[:, 0, 0].tolist()
    assert pictures[1, 0, 0].tolist() == levels[0].reshape(3, 2, 4)[:, 1, 0].tolist()
    assert pictures[2, 0, 0].tolist() == levels[4].reshape(3, 2, 4)[:, 0, 0].tolist()


def test_one_value_a_level_gives_each_level_back() -> None:
    table = value_table(COLOURS)
    rgb = noise(16, 16)[0].transpose(2, 0, 1)
    values = np.stack([table[channel][rgb[channel]] for channel in range(3)])
    assert np.array_equal(levels_of(values, LevelTable(table, 0)), rgb)
    assert np.array_equal(levels_of(-values, LevelTable(-table, 0)), rgb)


def test_unknown_values_are_stretched_and_no_number_is_borne() -> None:
    values = np.array([[[-1.0, 0.0, 1.0, np.nan, np.inf]]] * 3, np.float32)
    levels = levels_of(values)
    assert levels[0, 0].tolist() == [0, 128, 255, 128, 128]
    assert levels_of(np.zeros((3, 0, 4), np.float32)).size == 0
    assert not levels_of(np.full((3, 2, 2), 7, np.float32)).any()


@given(
    shape=st.lists(st.integers(0, 7), min_size=0, max_size=5),
    grid=st.none() | st.tuples(*[st.integers(-2, 8)] * 3),
    settings=st.dictionaries(
        st.sampled_from(["merge_size", "temporal_patch_size"]),
        st.none() | st.integers(-3, 2**70) | st.text(),
    ),
)
def test_any_shape_is_a_picture_or_none(
    *, shape: list[int], grid: tuple[int, int, int] | None, settings: dict[str, Any]
) -> None:
    found = pictures_of(np.zeros(shape, np.uint8), grid, settings)
    assert found is None or (found.ndim, found.shape[-1]) == (4, 3)


@given(
    shape=st.lists(st.integers(0, 7), min_size=0, max_size=5),
    axis=st.integers(-3, 6),
    stride=st.integers(0, 3),
)
def test_a_table_of_other_pixels_is_not_used(*, shape: list[int], axis: int, stride: int) -> None:
    values = np.zeros(shape, np.float32)
    assert levels_of(values, LevelTable(value_table(COLOURS), axis, stride)).shape == values.shape
