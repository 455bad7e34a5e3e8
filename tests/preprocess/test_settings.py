"""Settings resolve as the server resolves them, and what cannot be followed is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.digest import canonical_json
from vcache_cli.errors import ModelError
from vcache_cli.preprocess import FixedSizeFamily, clip, family_name, siglip
from vcache_cli.preprocess.profiles import TRANSFORMERS_PIL_5 as PROFILE

SIGLIP = {"image_processor_type": "SiglipImageProcessor"}
CLIP = {"image_processor_type": "CLIPImageProcessor"}


def resolve(
    folder: Path,
    family: FixedSizeFamily,
    found: dict[str, Any] | None,
    *,
    config: dict[str, Any] | None = None,
    processor: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """What `family` makes of a model folder with these files."""
    files = {
        "config.json": {"model_type": family.name, "vision_config": {}}
        if config is None
        else config,
        "preprocessor_config.json": found,
        "processor_config.json": processor,
    }
    for name, value in files.items():
        if value is not None:
            (folder / name).write_text(json.dumps(value))
    return family.resolve(open_checkpoint(str(folder)), PROFILE)


def test_missing_settings_mean_the_servers_defaults(tmp_path: Path) -> None:
    assert resolve(tmp_path, clip.FAMILY, CLIP) == {
        "do_convert_rgb": True,
        "do_resize": True,
        "do_center_crop": True,
        "do_rescale": True,
        "do_normalize": True,
        "size": {"shortest_edge": 224},
        "crop_size": {"height": 224, "width": 224},
        "resample": 3,
        "rescale_factor": 1 / 255,
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
        "patch_size": 32,
        "extra_tokens": 1,
    }


def test_siglip_crops_nothing_by_default(tmp_path: Path) -> None:
    settings = resolve(tmp_path, siglip.FAMILY, SIGLIP)
    assert settings["do_center_crop"] is False
    assert settings["size"] == {"height": 224, "width": 224}
    assert settings["patch_size"] == 16


def test_old_names_and_plain_integers_mean_the_same(tmp_path: Path) -> None:
    old = {"feature_extractor_type": "CLIPFeatureExtractor", "size": 224, "crop_size": 224}
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert resolve(tmp_path / "a", clip.FAMILY, old) == resolve(tmp_path / "b", clip.FAMILY, CLIP)


def test_null_switches_a_step_off(tmp_path: Path) -> None:
    settings = resolve(tmp_path, siglip.FAMILY, SIGLIP | {"do_convert_rgb": None})
    assert settings["do_convert_rgb"] is False
    settings = resolve(tmp_path, clip.FAMILY, CLIP | {"do_center_crop": None, "crop_size": None})
    assert "crop_size" not in settings


def test_settings_of_a_step_that_is_off_decide_nothing(tmp_path: Path) -> None:
    off = resolve(tmp_path, clip.FAMILY, CLIP | {"do_resize": False, "size": 7, "resample": 1})
    assert not {"size", "resample"} & set(off)


def test_unknown_settings_decide_nothing(tmp_path: Path) -> None:
    plain = resolve(tmp_path, siglip.FAMILY, SIGLIP)
    extra = SIGLIP | {"processor_class": "X", "transformers_version": "9", "do_pad": None}
    assert resolve(tmp_path, siglip.FAMILY, extra) == plain


def test_settings_are_json_values(tmp_path: Path) -> None:
    settings = resolve(tmp_path, clip.FAMILY, CLIP)
    assert json.loads(canonical_json(settings)) == settings


def test_a_part_of_the_processor_configuration_goes_first(tmp_path: Path) -> None:
    nested = {"image_processor": SIGLIP | {"size": {"height": 96, "width": 96}}}
    settings = resolve(tmp_path, siglip.FAMILY, SIGLIP, processor=nested)
    assert settings["size"] == {"height": 96, "width": 96}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "siglip", "vision_config": {"patch_size": 14}}, 14),
        ({"model_type": "siglip_vision_model", "patch_size": 8}, 8),
        ({"model_type": "siglip", "vision_config": {}}, 16),
    ],
    ids=["in-a-vision-part", "in-a-tower-alone", "nowhere"],
)
def test_the_side_of_a_patch_is_found(
    tmp_path: Path, config: dict[str, Any], expected: int
) -> None:
    assert resolve(tmp_path, siglip.FAMILY, SIGLIP, config=config)["patch_size"] == expected


def test_a_processor_without_a_type_is_taken_where_the_server_would_take_ours(
    tmp_path: Path,
) -> None:
    assert resolve(tmp_path, clip.FAMILY, {"size": 336})["size"] == {"shortest_edge": 336}
    larger = {"model_type": "llava", "vision_config": {"model_type": "clip_vision_model"}}
    with pytest.raises(ModelError, match="image processor `None`"):
        resolve(tmp_path, clip.FAMILY, {"size": 336}, config=larger)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "type": ({"image_processor_type": "Gemma3ImageProcessor"}, "expected `CLIPImageProcessor`"),
    "own-code": ({"auto_map": {"AutoImageProcessor": "x.Y"}}, "auto_map"),
    "pad": ({"do_pad": True}, "do_pad"),
    "no-float": ({"do_rescale": False, "do_normalize": False}, "both off"),
    "size-keys": ({"size": {"longest_edge": 5}}, "`size`: expected"),
    "size-null": ({"size": None}, "`size`: expected"),
    "size-zero": ({"size": 0}, "expected 1 to 65536"),
    "size-text": ({"size": "224"}, "`size`: expected"),
    "size-huge": ({"size": 10**6}, "expected 1 to 65536"),
    "size-area": ({"size": {"height": 20_000, "width": 20_000}}, "`size`: expected at most"),
    "crop-area": ({"crop_size": 65_536}, "`crop_size`: expected at most"),
    "size-bool": ({"size": True}, "`size`: expected"),
    "crop-keys": ({"crop_size": {"shortest_edge": 5}}, "height and width"),
    "resample-null": ({"resample": None}, "`resample`"),
    "resample-text": ({"resample": "bicubic"}, "`resample`"),
    "resample-unknown": ({"resample": 9}, "`resample`"),
    "factor-null": ({"rescale_factor": None}, "`rescale_factor`"),
    "mean-two": ({"image_mean": [0.5, 0.5]}, "`image_mean`"),
    "std-null": ({"image_std": None}, "`image_std`"),
    "std-text": ({"image_std": ["a", 1, 1]}, "`image_std`"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_followed_is_refused(tmp_path: Path, name: str) -> None:
    changes, words = REFUSED[name]
    with pytest.raises(ModelError, match=words):
        resolve(tmp_path, clip.FAMILY, CLIP | changes)


def test_a_folder_without_settings_says_which_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"expected preprocessor_config\.json"):
        resolve(tmp_path, clip.FAMILY, None)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "siglip"}, "siglip"),
        ({"model_type": "clip_vision_model"}, "clip"),
        ({"model_type": "llava", "vision_config": {"model_type": "clip_vision_model"}}, "clip"),
        (
            {"model_type": "paligemma", "vision_config": {"model_type": "siglip_vision_model"}},
            "siglip",
        ),
    ],
    ids=["whole", "tower", "llava", "paligemma"],
)
def test_a_model_is_served_by_the_family_of_its_tower(
    config: dict[str, Any], expected: str
) -> None:
    assert family_name(config) == expected


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "llama"}, "`llama` without a vision part; known: clip, siglip"),
        ({}, "without a vision part"),
        (
            {"model_type": "siglip2", "vision_config": {"model_type": "siglip2_vision_model"}},
            "`siglip2` with a vision part of `siglip2_vision_model`",
        ),
    ],
    ids=["text-only", "empty", "unknown-tower"],
)
def test_an_unknown_model_is_told_what_is_known(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        family_name(config)
