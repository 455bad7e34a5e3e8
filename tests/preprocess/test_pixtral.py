"""Pixtral's and Mistral 3's settings, sizes and counts, and the hashes of their revisions."""

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
from vcache_cli.preprocess import family_name, mistral3, pixtral
from vcache_cli.preprocess.pixtral import PixtralFamily
from vcache_cli.preprocess.profiles import MLX_VLM_0_7, TRANSFORMERS_PIL_5
from vcache_cli.preprocess.varied_size import VariedSizePreprocessor, whole_patches
from vcache_cli.profile import Profile

NAMED = {"image_processor_type": "PixtralImageProcessor", "size": {"longest_edge": 64}}
PROFILES = {each.name: each for each in (TRANSFORMERS_PIL_5, MLX_VLM_0_7)}


def resolve(
    folder: Path,
    found: dict[str, Any] | None,
    *,
    family: PixtralFamily = pixtral.FAMILY,
    profile: Profile = TRANSFORMERS_PIL_5,
    processor: dict[str, Any] | None = None,
    **config: Any,  # noqa: ANN401  JSON values
) -> dict[str, Any]:
    """Settings of a model folder with these files."""
    files = {
        "config.json": {"model_type": family.name} | config,
        "preprocessor_config.json": found,
        "processor_config.json": processor,
    }
    for name, content in files.items():
        if content is not None:
            (folder / name).write_text(json.dumps(content))
    return family.resolve(open_checkpoint(str(folder)), profile)


@pytest.fixture(scope="module", params=PROFILES)
def prepare(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> VariedSizePreprocessor:
    profile = PROFILES[request.param]
    folder = tmp_path_factory.mktemp("model")
    settings = resolve(folder, NAMED, profile=profile, processor={"patch_size": 8})
    return pixtral.FAMILY.preprocessor(settings, profile)


def picture(width: int, height: int) -> Frames:
    """Levels by arithmetic alone, so that no library's version reaches them."""
    row, column = np.indices((height, width), np.uint32)
    parts = (row * 7 + column * 3, row * column, (row ^ column) * 5)
    return Frames(np.stack([part % 256 for part in parts], axis=2).astype(np.uint8)[np.newaxis])


GOLDEN = {
    ("transformers-pil-5", 1, "pixtral", 1): {
        (1, 1): "5d42e8ab4e534f1e",
        (10, 200): "1f8e8a65ba76baf7",
        (64, 33): "285ecc44d3502bf3",
    },
    ("mlx-vlm-0.7", 1, "pixtral", 1): {
        (1, 1): "5d42e8ab4e534f1e",
        (10, 200): "193314f0c4bee690",
        (64, 33): "f1e02f4bee7e072b",
    },
    ("transformers-pil-5", 1, "mistral3", 1): {
        (1, 1): "3a8e8027f0d5a989",
        (10, 200): "008e88a88f6c4cd2",
        (64, 33): "27861451f8807254",
    },
    ("mlx-vlm-0.7", 1, "mistral3", 1): {
        (1, 1): "3a8e8027f0d5a989",
        (10, 200): "49e9ccdea1e09b1a",
        (64, 33): "a2d1aeebeaddde1b",
    },
}
"""By profile, its revision, family and its revision."""


@pytest.mark.parametrize("family", [pixtral.FAMILY, mistral3.FAMILY], ids=lambda each: each.name)
@pytest.mark.parametrize("profile", PROFILES)
def test_pixels_are_those_of_this_revision(
    family: PixtralFamily, profile: str, tmp_path: Path
) -> None:
    """Other hashes mean other bytes on disk: bump the revision, then take the new hashes."""
    rules = PROFILES[profile]
    merge = {"spatial_merge_size": 2} if family is mistral3.FAMILY else {}
    settings = resolve(
        tmp_path,
        NAMED,
        family=family,
        profile=rules,
        processor={"patch_size": 7} | merge,
        vision_config={"patch_size": 7},
        **merge,
    )
    made = family.preprocessor(settings, rules)
    wanted = GOLDEN[(rules.name, rules.revision, family.name, family.revision)]
    values = {size: made(picture(*size)).tensors["pixel_values"] for size in wanted}
    assert wanted == {
        size: digest_bytes(array.astype("<f4").tobytes())[:16] for size, array in values.items()
    }


@given(st.integers(1, 4000), st.integers(1, 4000), st.integers(1, 2000), st.integers(1, 40))
def test_sides_are_whole_patches_that_just_hold_what_is_allowed(
    height: int, width: int, longest: int, patch: int
) -> None:
    limits = {"height": longest, "width": longest}
    size = whole_patches(height, width, max_size=limits, patch_size=patch)
    for side, was in zip(size, (height, width), strict=True):
        assert side % patch == 0
        assert side < min(was, longest) + patch


@given(st.integers(1, 120), st.integers(1, 120))
def test_tokens_and_bytes_follow_from_the_size_alone(
    prepare: VariedSizePreprocessor, width: int, height: int
) -> None:
    frames = picture(width, height)
    try:
        pixels = prepare(frames)
    except EncodeError:
        with pytest.raises(EncodeError):
            prepare.num_tokens(width, height)
        return
    compact = prepare.compact(frames)
    values = pixels.tensors["pixel_values"]
    assert pixels.tensors["image_sizes"].tolist() == list(values.shape[1:])
    assert pixels.num_tokens == prepare.num_tokens(width, height) == values.size // (3 * 64)
    assert pixels.size_bytes == prepare.pixel_bytes(width, height)
    assert compact.expanded().tensors["pixel_values"].tobytes() == values.tobytes()
    tables = sum(table.values.nbytes for table in compact.tables.values())
    assert compact.size_bytes + tables == prepare.pixel_bytes(width, height, compact=True)


def test_a_request_is_padded_after_the_table(prepare: VariedSizePreprocessor) -> None:
    """The 0 that is added is no level's value, so only whole pictures can be kept as levels."""
    request = [prepare(picture(*size)) for size in ((30, 10), (8, 40))]
    processed = prepare.processed(request)
    assert processed["image_sizes"].tolist() == [[16, 32], [40, 8]]
    assert processed["image_sizes"].dtype == np.int64
    values = processed["pixel_values"]
    assert values.shape == (2, 3, 40, 32)
    assert not values[0, :, 16:].any()
    assert not values[1, :, :, 8:].any()
    assert np.array_equal(values[0, :, :16], request[0].tensors["pixel_values"])
    assert prepare.pixel_shape is None


def test_a_line_whose_short_side_would_vanish_is_refused(prepare: VariedSizePreprocessor) -> None:
    with pytest.raises(EncodeError, match="500 x 1 pixels would become 64 x 0") as error:
        prepare(picture(500, 1))
    assert error.value.item_kind == "too_long"


def test_a_preprocessor_can_be_sent_to_another_process(prepare: VariedSizePreprocessor) -> None:
    copy = pickle.loads(pickle.dumps(prepare))  # noqa: S301  our own bytes
    first, second = (each(picture(9, 7)).tensors["pixel_values"] for each in (prepare, copy))
    assert np.array_equal(first, second)


def test_a_missing_setting_means_the_default(tmp_path: Path) -> None:
    settings = resolve(tmp_path, {"image_processor_type": "PixtralImageProcessorFast"})
    assert settings == {
        "arithmetic": "scale-f64",
        "do_center_crop": False,
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
        "max_size": {"height": 1024, "width": 1024},
        "patch_size": 16,
        "resample": 3,
        "rescale_factor": 1 / 255,
    }
    assert json.loads(canonical_json(settings)) == settings


def test_null_means_the_default_to_mlx_vlm_alone(tmp_path: Path) -> None:
    nulls = NAMED | dict.fromkeys(("image_mean", "image_std", "size", "resample"))
    whole = resolve(tmp_path, None, profile=MLX_VLM_0_7)
    assert resolve(tmp_path, nulls, profile=MLX_VLM_0_7) == whole
    assert whole["arithmetic"] == "scale-f32"
    for name in ("image_mean", "image_std", "size", "resample"):
        with pytest.raises(ModelError, match=name):
            resolve(tmp_path, NAMED | {name: None})


def test_nearest_is_no_null_to_mlx_vlm(tmp_path: Path) -> None:
    assert resolve(tmp_path, NAMED | {"resample": 0}, profile=MLX_VLM_0_7)["resample"] == 0


@pytest.mark.parametrize("profile", PROFILES)
def test_null_switches_a_step_off(profile: str, tmp_path: Path) -> None:
    off = NAMED | dict.fromkeys(("do_resize", "do_normalize"))
    settings = resolve(tmp_path, off, profile=PROFILES[profile])
    assert not {"max_size", "resample", "image_mean"} & set(settings)
    made = pixtral.FAMILY.preprocessor(settings, PROFILES[profile])
    assert made(picture(33, 50)).num_tokens == made.num_tokens(33, 50) == 2 * 3


def test_mlx_vlm_takes_a_size_from_beside_its_image_processor(tmp_path: Path) -> None:
    found = {"image_processor_type": "PixtralImageProcessor"}
    beside = {"size": {"longest_edge": 99}}
    own = resolve(tmp_path, found, profile=MLX_VLM_0_7, processor=beside)
    assert own["max_size"] == {"height": 99, "width": 99}
    assert resolve(tmp_path, found)["max_size"] == {"height": 1024, "width": 1024}


MERGED = {"vision_config": {"patch_size": 14}, "spatial_merge_size": 2}


@pytest.mark.parametrize(
    ("files", "sides"),
    [
        (({}, {"patch_size": 14, "spatial_merge_size": 2}, MERGED), (28, 28)),
        (({}, {"patch_size": 14}, MERGED), (14, 28)),
        (({}, {}, {}), (16, 16)),
        (({"patch_size": {"width": 9}}, {"patch_size": 5}, {}), (5, 9)),
        (({"patch_size": 9}, {}, {}), (16, 9)),
        (({}, {"patch_size": 5, "spatial_merge_size": 3}, {"vision_config": {}}), (15, 15)),
        (({}, {"patch_size": 5, "image_processor": {"patch_size": 9}}, {}), (5, 5)),
    ],
)
def test_each_server_looks_elsewhere_for_the_side_of_a_token(
    files: tuple[dict[str, Any], ...], sides: tuple[int, int], tmp_path: Path
) -> None:
    found, processor, config = files
    for profile, side in zip(PROFILES.values(), sides, strict=True):
        settings = resolve(
            tmp_path,
            NAMED | found if "image_processor" not in processor else None,
            family=mistral3.FAMILY,
            profile=profile,
            processor=processor,
            **config,
        )
        assert settings["patch_size"] == side


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"do_pad": False}, "`do_pad` off"),
        ({"do_center_crop": True}, "`do_center_crop` on"),
        ({"size": {"shortest_edge": 3}}, "`size`: expected longest_edge"),
        ({"size": 9, "default_to_square": False}, "refuses an integer"),
        ({"size": {"longest_edge": None}}, "`size.height`"),
        ({"image_processor_type": "CLIPImageProcessor"}, "image processor"),
    ],
)
def test_what_cannot_be_followed_is_refused(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=words):
        resolve(tmp_path, NAMED | changes)


def test_mlx_vlm_ignores_what_its_class_does_not_know(tmp_path: Path) -> None:
    plain = resolve(tmp_path, NAMED, profile=MLX_VLM_0_7)
    ignored = {"do_pad": False, "do_center_crop": True, "image_processor_type": "Any"}
    assert resolve(tmp_path, NAMED | ignored, profile=MLX_VLM_0_7) == plain
    with pytest.raises(ModelError, match="refuses one number"):
        resolve(tmp_path, NAMED | {"image_std": 0.5}, profile=MLX_VLM_0_7)


def test_a_side_that_is_no_number_is_refused(tmp_path: Path) -> None:
    for value in (None, {"height": 16}, 0):
        with pytest.raises(ModelError, match="`patch_size`"):
            resolve(tmp_path, NAMED, processor={"patch_size": value})


def test_a_llava_around_pixtrals_tower_is_pixtral() -> None:
    known = ("clip", "llava", "mistral3", "pixtral")
    for model_type, family in (("llava", "pixtral"), ("mistral3", "mistral3")):
        config = {"model_type": model_type, "vision_config": {"model_type": "pixtral"}}
        assert family_name(config, known=known) == family


def test_unknown_processors_are_refused() -> None:
    other = Profile("other", 1, "x", ("1",), processors="torchvision")
    with pytest.raises(ModelError, match="unknown processors `torchvision`"):
        pixtral.FAMILY.preprocessor({}, other)
