"""Pixels of fixed-size families, and the hashes that catch a forgotten revision."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.digest import digest_bytes
from vcache_cli.errors import EncodeError, ModelError
from vcache_cli.items import Frames
from vcache_cli.preprocess import clip, siglip
from vcache_cli.preprocess.fixed_size import FixedSizePreprocessor
from vcache_cli.preprocess.profiles import TRANSFORMERS_PIL_5 as PROFILE
from vcache_cli.preprocess.settings import image_settings
from vcache_cli.profile import Profile

FAMILIES = {"clip": clip.FAMILY, "siglip": siglip.FAMILY}


def preprocessor(name: str, **changes: Any) -> FixedSizePreprocessor:  # noqa: ANN401  JSON values
    family = FAMILIES[name]
    settings = image_settings(changes, family.defaults)
    settings |= {"patch_size": family.patch_size, "extra_tokens": family.extra_tokens}
    return family.preprocessor(settings, PROFILE)


def picture(width: int, height: int) -> Frames:
    """Levels by arithmetic alone, so that no library's version reaches them."""
    row, column = np.indices((height, width), np.uint32)
    parts = (row * 7 + column * 3, row * column, (row ^ column) * 5)
    return Frames(np.stack([part % 256 for part in parts], axis=2).astype(np.uint8)[np.newaxis])


GOLDEN = {
    ("transformers-pil-5", 1, "siglip", 1): {
        (1, 1): "811b0abfb7b80654",
        (10, 200): "fab786b58d7458d3",
        (333, 777): "a63a7c47f236a45d",
        (224, 224): "c9ff45a8596e234c",
        (640, 481): "e9a92f9f8f14a349",
    },
    ("transformers-pil-5", 1, "clip", 1): {
        (1, 1): "234f683044b9f0c3",
        (10, 200): "b67a1b3f92e2a832",
        (333, 777): "f651efa52bc1aca3",
        (224, 224): "166f64bcfa135ac1",
        (640, 481): "f8c63a698db8ec5d",
    },
}
"""By profile, its revision, family and its revision."""
SIZES = ((1, 1), (10, 200), (333, 777), (224, 224), (640, 481))


def pixels_hash(name: str, size: tuple[int, int]) -> str:
    values = preprocessor(name)(picture(*size)).tensors["pixel_values"]
    return digest_bytes(values.astype("<f4").tobytes())[:16]


@pytest.mark.parametrize("name", FAMILIES)
def test_pixels_are_those_of_this_revision(name: str) -> None:
    """Other hashes mean other bytes on disk: bump the revision, then take the new hashes."""
    revisions = (PROFILE.name, PROFILE.revision, name, FAMILIES[name].revision)
    assert GOLDEN[revisions] == {size: pixels_hash(name, size) for size in SIZES}


@given(st.sampled_from(sorted(FAMILIES)), st.integers(1, 60), st.integers(1, 60))
def test_every_picture_gets_the_same_shape_and_count(name: str, width: int, height: int) -> None:
    prepare = preprocessor(name, size={"height": 32, "width": 48}, crop_size=[32, 48])
    pixels = prepare(picture(width, height))
    assert pixels.tensors["pixel_values"].shape == (3, 32, 48)
    assert pixels.num_tokens == prepare.num_tokens(width, height)


def test_tokens_are_patches_and_the_class_token() -> None:
    assert preprocessor("siglip").num_tokens(10, 10) == 14 * 14
    assert preprocessor("clip").num_tokens(10, 10) == 7 * 7 + 1


@given(st.integers(1, 40), st.integers(1, 40))
def test_without_a_resize_the_count_follows_the_picture(width: int, height: int) -> None:
    prepare = preprocessor("siglip", do_resize=False)
    pixels = prepare(picture(width, height))
    assert pixels.tensors["pixel_values"].shape == (3, height, width)
    assert pixels.num_tokens == prepare.num_tokens(width, height) == (height // 16) * (width // 16)


def test_a_small_picture_is_cropped_into_black() -> None:
    prepare = preprocessor("clip", do_resize=False, crop_size=4)
    values = prepare(Frames(np.full((1, 1, 2, 3), 255, np.uint8))).tensors["pixel_values"]
    black = preprocessor("clip", do_resize=False, crop_size=1)(picture(1, 1))
    assert values[0, 0, 0] == black.tensors["pixel_values"][0, 0, 0]
    assert np.argwhere(values[0] > values[0, 0, 0]).tolist() == [[2, 1], [2, 2]]


def test_a_transparent_colour_becomes_white_where_the_processor_converts() -> None:
    rgb = np.array([[[[1, 2, 3], [1, 2, 4]]]], np.uint8)
    marked = Frames(rgb, key_rgb=(1, 2, 3))
    white = Frames(np.array([[[[255, 255, 255], [1, 2, 4]]]], np.uint8))
    for convert, same in ((True, white), (None, Frames(rgb))):
        prepare = preprocessor("siglip", do_resize=False, do_convert_rgb=convert)
        ours, expected = (prepare(frames).tensors["pixel_values"] for frames in (marked, same))
        assert np.array_equal(ours, expected)
    assert rgb[0, 0, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("size", "changes"),
    [((1, 9000), {}), ((1, 300), {"size": {"max_height": 9, "max_width": 9}})],
    ids=["without-end", "to-nothing"],
)
def test_a_picture_too_thin_to_resize_is_refused(
    size: tuple[int, int], changes: dict[str, Any]
) -> None:
    with pytest.raises(EncodeError) as error:
        preprocessor("clip", **changes)(picture(*size))
    assert error.value.item_kind == "too_long"


def test_a_preprocessor_can_be_sent_to_another_process() -> None:
    prepare = preprocessor("clip")
    first = prepare(picture(9, 7)).tensors["pixel_values"]
    copy = pickle.loads(pickle.dumps(prepare))  # noqa: S301  our own bytes
    assert np.array_equal(copy(picture(9, 7)).tensors["pixel_values"], first)


def test_unknown_processors_are_refused() -> None:
    other = Profile("other", 1, "x", ("1",), processors="torchvision")
    with pytest.raises(ModelError, match="unknown processors `torchvision`"):
        siglip.FAMILY.preprocessor({}, other)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_compact_form_expands_to_the_same_bits(name: str) -> None:
    made = preprocessor(name)
    frames = picture(333, 200)
    plain, compact = made(frames), made.compact(frames)
    expanded = compact.expanded()
    assert expanded.tensors["pixel_values"].tobytes() == plain.tensors["pixel_values"].tobytes()
    assert made.pixel_bytes(333, 200) == plain.size_bytes
    tables = sum(table.values.nbytes for table in compact.tables.values())
    assert made.pixel_bytes(333, 200, compact=True) == compact.size_bytes + tables
