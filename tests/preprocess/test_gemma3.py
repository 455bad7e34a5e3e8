"""Gemma 3's settings, crops and counts, and the hashes that catch a forgotten revision."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.digest import canonical_json, digest_bytes
from vcache_cli.errors import EncodeError, ModelError
from vcache_cli.items import Frames
from vcache_cli.preprocess import gemma3
from vcache_cli.preprocess.gemma3 import Gemma3Preprocessor
from vcache_cli.preprocess.pan_and_scan import crop_boxes
from vcache_cli.preprocess.profiles import MLX_VLM_0_7, TRANSFORMERS_PIL_5
from vcache_cli.profile import Profile

NAMED = {"image_processor_type": "Gemma3ImageProcessor", "size": {"height": 28, "width": 28}}
SCAN = {
    "do_pan_and_scan": True,
    "pan_and_scan_max_num_crops": 4,
    "pan_and_scan_min_crop_size": 4,
    "pan_and_scan_min_ratio_to_activate": 1.2,
}
VISION = {"model_type": "siglip_vision_model", "image_size": 28, "patch_size": 7}


def resolve(
    folder: Path,
    found: dict[str, Any],
    *,
    profile: Profile = MLX_VLM_0_7,
    **config: Any,  # noqa: ANN401  JSON values
) -> dict[str, Any]:
    """Settings of a model folder with these files."""
    few = {"mm_tokens_per_image": 4}
    whole = {"model_type": "gemma3", "vision_config": VISION, "text_config": few} | few | config
    (folder / "config.json").write_text(json.dumps(whole))
    (folder / "preprocessor_config.json").write_text(json.dumps(found))
    return gemma3.FAMILY.resolve(open_checkpoint(str(folder)), profile)


@pytest.fixture(scope="module")
def scanning(tmp_path_factory: pytest.TempPathFactory) -> Gemma3Preprocessor:
    settings = resolve(tmp_path_factory.mktemp("model"), NAMED | SCAN)
    return gemma3.FAMILY.preprocessor(settings, MLX_VLM_0_7)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Gemma3Preprocessor:
    settings = resolve(tmp_path_factory.mktemp("model"), NAMED)
    return gemma3.FAMILY.preprocessor(settings, MLX_VLM_0_7)


def picture(width: int, height: int) -> Frames:
    """Levels by arithmetic alone, so that no library's version reaches them."""
    row, column = np.indices((height, width), np.uint32)
    parts = (row * 7 + column * 3, row * column, (row ^ column) * 5)
    return Frames(np.stack([part % 256 for part in parts], axis=2).astype(np.uint8)[np.newaxis])


GOLDEN = {
    ("mlx-vlm-0.7", 1, "gemma3", 1): {
        (1, 1): "039c301b0927a9ea",
        (10, 200): "d6dada918652e057",
        (64, 33): "728cc43d737bc7bd",
    },
}
"""By profile, its revision, family and its revision."""


def test_pixels_are_those_of_this_revision(scanning: Gemma3Preprocessor) -> None:
    """Other hashes mean other bytes on disk: bump the revision, then take the new hashes."""
    revisions = (MLX_VLM_0_7.name, MLX_VLM_0_7.revision, "gemma3", gemma3.FAMILY.revision)
    wanted = GOLDEN[revisions]
    values = {size: scanning(picture(*size)).tensors["pixel_values"] for size in wanted}
    assert wanted == {
        size: digest_bytes(array.astype("<f4").tobytes())[:16] for size, array in values.items()
    }


@given(st.integers(1, 90), st.integers(1, 90))
def test_a_picture_of_any_size_becomes_one_square(
    plain: Gemma3Preprocessor, width: int, height: int
) -> None:
    pixels = plain(picture(width, height))
    assert pixels.tensors["pixel_values"].shape == plain.pixel_shape == (3, 28, 28)
    assert pixels.num_tokens == plain.num_tokens(width, height) == 4
    assert pixels.size_bytes == plain.pixel_bytes(width, height)


@given(st.integers(16, 120), st.integers(16, 120))
def test_a_long_picture_is_followed_by_its_crops(
    scanning: Gemma3Preprocessor, width: int, height: int
) -> None:
    frames = picture(width, height)
    pixels, compact = scanning(frames), scanning.compact(frames)
    values = pixels.tensors["pixel_values"]
    tiles = 1 + len(crop_boxes(height, width, **scanning.settings["pan_and_scan"]))
    assert values.shape == (tiles, 3, 28, 28)
    assert pixels.num_tokens == scanning.num_tokens(width, height) == 4 * tiles
    assert pixels.size_bytes == scanning.pixel_bytes(width, height)
    assert compact.expanded().tensors["pixel_values"].tobytes() == values.tobytes()
    tables = sum(table.values.nbytes for table in compact.tables.values())
    assert compact.size_bytes + tables == scanning.pixel_bytes(width, height, compact=True)


def test_a_request_puts_pictures_and_crops_in_one_row(
    scanning: Gemma3Preprocessor, plain: Gemma3Preprocessor
) -> None:
    sizes = ((30, 30), (80, 20), (16, 40))
    for prepare, count in ((scanning, 1 + 5 + 4), (plain, 3)):
        processed = prepare.processed([prepare(picture(*size)) for size in sizes])
        assert list(processed) == ["pixel_values"]
        assert processed["pixel_values"].shape == (count, 3, 28, 28)


@given(st.integers(1, 2000), st.integers(1, 2000), st.integers(1, 300), st.integers(1, 9))
def test_crops_cover_the_picture_once(width: int, height: int, side: int, most: int) -> None:
    try:
        boxes = crop_boxes(height, width, min_crop_size=side, max_num_crops=most, min_ratio=1.2)
    except EncodeError:
        return
    if boxes:
        area = sum((bottom - top) * (right - left) for top, bottom, left, right in boxes)
        assert area == width * height
        assert len(boxes) <= most


def test_a_crop_outside_the_picture_is_refused() -> None:
    with pytest.raises(EncodeError, match="cannot be cut into 4 crops of 2") as error:
        crop_boxes(1, 5, min_crop_size=1, max_num_crops=4, min_ratio=1.2)
    assert error.value.item_kind == "too_long"


def test_the_processor_of_transformers_never_scans_and_always_converts(tmp_path: Path) -> None:
    """Its own defaults are passed on, so the checkpoint's settings never reach the pixels."""
    found = NAMED | SCAN | {"do_convert_rgb": None}
    theirs = resolve(tmp_path, found, profile=TRANSFORMERS_PIL_5)
    assert theirs["pan_and_scan"] is None
    assert theirs["do_convert_rgb"] is True
    own = resolve(tmp_path, found)
    assert own["pan_and_scan"] == {"min_crop_size": 4, "max_num_crops": 4, "min_ratio": 1.2}
    assert own["do_convert_rgb"] is False
    assert json.loads(canonical_json(own)) == own


def test_tokens_are_what_the_projector_pools_to(tmp_path: Path) -> None:
    published = {"image_size": 896, "patch_size": 14}
    for profile in (TRANSFORMERS_PIL_5, MLX_VLM_0_7):
        settings = resolve(
            tmp_path,
            NAMED,
            profile=profile,
            vision_config=published,
            text_config={},
            mm_tokens_per_image=256,
        )
        assert settings["tokens_per_crop"] == 256
    odd = resolve(
        tmp_path, NAMED, vision_config=published, text_config={"mm_tokens_per_image": 400}
    )
    assert odd["tokens_per_crop"] == 21 * 21  # 64 patches a side, pooled by 3


def test_a_preprocessor_can_be_sent_to_another_process(scanning: Gemma3Preprocessor) -> None:
    copy = pickle.loads(pickle.dumps(scanning))  # noqa: S301  our own bytes
    first, second = (each(picture(90, 17)).tensors["pixel_values"] for each in (scanning, copy))
    assert np.array_equal(first, second)


@pytest.mark.parametrize(
    ("found", "config", "words"),
    [
        (NAMED | {"size": {"shortest_edge": 28}}, {}, "one height and width"),
        (NAMED | {"do_resize": None}, {}, "one height and width"),
        (NAMED | SCAN | {"pan_and_scan_max_num_crops": None}, {}, "max_num_crops"),
        (NAMED | SCAN | {"pan_and_scan_max_num_crops": 0}, {}, "max_num_crops"),
        (NAMED | SCAN | {"pan_and_scan_min_crop_size": 0}, {}, "min_crop_size"),
        (NAMED | SCAN | {"pan_and_scan_min_ratio_to_activate": "2"}, {}, "min_ratio"),
        (NAMED, {"text_config": {"mm_tokens_per_image": 400}}, "more than 16 patches"),
        ({"image_processor_type": "SiglipImageProcessor"}, {}, "image processor"),
    ],
)
def test_what_cannot_be_followed_is_refused(
    found: dict[str, Any], config: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=words):
        resolve(tmp_path, found, **config)


def test_unknown_processors_are_refused() -> None:
    other = Profile("other", 1, "x", ("1",), processors="torchvision")
    with pytest.raises(ModelError, match="unknown processors `torchvision`"):
        gemma3.FAMILY.preprocessor({}, other)
