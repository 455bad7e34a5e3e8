"""Tiles of any family: their places, their compact form, and what is too thin to cut."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.errors import EncodeError, ModelError
from vcache_cli.items import Frames
from vcache_cli.preprocess import idefics3, internvl
from vcache_cli.preprocess.internvl import internvl_plan
from vcache_cli.preprocess.profiles import TRANSFORMERS_PIL_5 as PROFILE
from vcache_cli.preprocess.tiles import TilePlan, TilePreprocessor, value_settings
from vcache_cli.profile import Profile

SETTINGS: dict[str, Any] = {
    "batch_axis": False,
    "do_convert_rgb": True,
    "do_normalize": False,
    "do_rescale": True,
    "grid": "more-tiles",
    "max_tiles": 12,
    "min_tiles": 1,
    "overview": True,
    "pixel_mask": False,
    "resample": 3,
    "rescale_factor": 1.0,
    "tile": {"height": 8, "width": 8},
    "tile_tokens": 5,
}


def preprocessor(**changes: Any) -> TilePreprocessor:  # noqa: ANN401  JSON values
    return TilePreprocessor({**SETTINGS, **changes}, internvl_plan)


def picture(width: int, height: int) -> Frames:
    levels = np.random.default_rng(width * 1000 + height).integers(0, 256, (1, height, width, 3))
    return Frames(levels.astype(np.uint8))


def test_tiles_are_the_picture_row_by_row_and_then_the_whole() -> None:
    frames = picture(16, 24)  # two columns, three rows: nothing is resized
    values = preprocessor(overview=False)(frames).tensors["pixel_values"]
    assert values.shape == (6, 3, 8, 8)
    rows = [np.concatenate(values[row : row + 2], axis=2) for row in (0, 2, 4)]
    whole = np.concatenate(rows, axis=1).transpose(1, 2, 0)
    assert np.array_equal(whole, frames.rgb[0])
    assert len(preprocessor()(frames).tensors["pixel_values"]) == 7


@given(st.integers(1, 90), st.integers(1, 90), st.booleans())
def test_counts_and_bytes_are_known_from_the_size_alone(
    width: int,
    height: int,
    overview: bool,  # noqa: FBT001  drawn
) -> None:
    prepare, frames = preprocessor(overview=overview), picture(width, height)
    pixels, compact = prepare(frames), prepare.compact(frames)
    tables = sum(table.values.nbytes for table in compact.tables.values())
    assert pixels.num_tokens == compact.num_tokens == prepare.num_tokens(width, height)
    assert pixels.num_tokens == 5 * len(pixels.tensors["pixel_values"])
    assert pixels.size_bytes == prepare.pixel_bytes(width, height)
    assert compact.size_bytes + tables == prepare.pixel_bytes(width, height, compact=True)
    assert pixels.tensors["pixel_values"].shape[1:] == prepare.pixel_shape


def test_the_compact_form_expands_to_the_same_bits() -> None:
    mean = {"do_normalize": True, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.3, 0.4, 0.5]}
    prepare, frames = preprocessor(**mean), picture(77, 30)
    expected = prepare(frames).tensors["pixel_values"]
    found = prepare.compact(frames).expanded().tensors["pixel_values"]
    assert (found.dtype, found.tobytes()) == (expected.dtype, expected.tobytes())


@pytest.mark.parametrize("batch_axis", [True, False])
def test_a_request_is_its_pictures_tiles_one_after_another(*, batch_axis: bool) -> None:
    prepare = preprocessor(batch_axis=batch_axis, pixel_mask=batch_axis)
    request = [prepare(picture(*size)) for size in ((8, 8), (16, 8))]
    made = prepare.processed(request)
    values = made["pixel_values"]
    assert values.shape == ((1, 4, 3, 8, 8) if batch_axis else (4, 3, 8, 8))
    tiles = values[0] if batch_axis else values
    assert np.array_equal(tiles[1:], request[1].tensors["pixel_values"])
    mask = made.get("pixel_attention_mask")
    assert (mask is not None) == batch_axis
    if mask is not None:
        assert (mask.shape, mask.dtype.name, int(mask.sum())) == ((1, 4, 8, 8), "int64", 4 * 64)


def test_a_transparent_colour_becomes_white_where_the_processor_converts() -> None:
    rgb = np.full((1, 8, 8, 3), 9, np.uint8)
    marked = Frames(rgb, key_rgb=(9, 9, 9))
    for convert, level in ((True, 255), (False, 9)):
        values = preprocessor(do_convert_rgb=convert)(marked).tensors["pixel_values"]
        assert (values == level).all()


@pytest.mark.parametrize("size", [(40_000, 40_000), (0, 9)], ids=["without-end", "to-nothing"])
def test_a_picture_that_cannot_be_resized_is_refused(size: tuple[int, int]) -> None:
    prepare = TilePreprocessor(SETTINGS, lambda *_: TilePlan((size,), 1, 1))
    for refused in (
        lambda: prepare(picture(3, 2)),
        lambda: prepare.compact(picture(3, 2)),
        lambda: prepare.num_tokens(3, 2),
        lambda: prepare.pixel_bytes(3, 2),
    ):
        with pytest.raises(EncodeError) as error:
            refused()
        assert error.value.item_kind == "too_long"


def test_a_preprocessor_can_be_sent_to_another_process() -> None:
    prepare = preprocessor()
    first = prepare(picture(31, 20)).tensors["pixel_values"]
    copy = pickle.loads(pickle.dumps(prepare))  # noqa: S301  our own bytes
    assert np.array_equal(copy(picture(31, 20)).tensors["pixel_values"], first)


def test_settings_of_sizes_are_no_settings_of_colours() -> None:
    defaults = dict.fromkeys(("do_convert_rgb", "do_rescale", "rescale_factor"), 1)
    defaults |= {"do_normalize": False}
    found = {"do_pad": True, "size": 3, "do_center_crop": True, "rescale_factor": 0.5}
    assert value_settings(found, defaults) == {
        "do_convert_rgb": True,
        "do_normalize": False,
        "do_rescale": True,
        "rescale_factor": 0.5,
    }


@pytest.mark.parametrize("family", [idefics3.FAMILY, internvl.FAMILY], ids=["idefics3", "internvl"])
def test_unknown_processors_and_values_without_end_are_refused(
    family: idefics3.Idefics3Family | internvl.InternVLFamily,
) -> None:
    other = Profile("other", 1, "x", ("1",), processors="torchvision")
    with pytest.raises(ModelError, match="unknown processors `torchvision`"):
        family.preprocessor(SETTINGS, other)
    with pytest.raises(ModelError, match="expected finite pixels"):
        family.preprocessor({**SETTINGS, "rescale_factor": 1e300}, PROFILE)
