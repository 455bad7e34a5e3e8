"""Settings of image processors of any type and size, for every family and both servers' rules."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.errors import EncodeError, ModelError
from vcache_cli.items import Frames
from vcache_cli.preprocess.profiles import MLX_VLM_0_7, TRANSFORMERS_PIL_5
from vcache_cli.profile import Profile
from vcache_cli.protocols import Preprocessor

Files = dict[str, dict[str, Any]]

STEPS = dict.fromkeys(("do_convert_rgb", "do_normalize", "do_rescale", "do_resize"), True)
COMMON: dict[str, Any] = {
    **STEPS,
    "image_mean": [0.48, 0.45, 0.4],
    "image_std": [0.26, 0.26, 0.27],
    "resample": 3,
    "rescale_factor": 1 / 255,
}
SQUARE = {"height": 56, "width": 56}
CROPPED = {"do_center_crop": True, "crop_size": SQUARE, "size": {"shortest_edge": 56}}
QWEN = {"min_pixels": 3136, "max_pixels": 50_176, "size": None}
QWEN |= {"merge_size": 2, "patch_size": 14, "temporal_patch_size": 2}
TILED = {"max_image_size": {"longest_edge": 56}, "size": {"longest_edge": 112}}
SCAN = {"do_pan_and_scan": True, "pan_and_scan_max_num_crops": 4, "size": SQUARE}
SCAN |= {"pan_and_scan_min_crop_size": 16, "pan_and_scan_min_ratio_to_activate": 1.2}
VARIED = {"patch_size": {"height": 14, "width": 14}, "size": {"longest_edge": 112}}
MERGED = {"patch_size": 14, "spatial_merge_size": 1, "image_processor": None}
DYNAMIC = {"min_dynamic_patch": 1, "max_dynamic_patch": 12, "downsample_ratio": 0.5}
POOLED = {"mm_tokens_per_image": 4}
Parts = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
FAMILIES: dict[str, Parts] = {
    "clip": (CROPPED, {}, {}),
    "siglip": ({"size": SQUARE}, {}, {}),
    "llava": (CROPPED, {"vision_feature_select_strategy": "default"}, {}),
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5"), (QWEN, {}, {})),
    "gemma3": (SCAN, POOLED | {"text_config": POOLED}, {}),
    **dict.fromkeys(("idefics3", "smolvlm"), (TILED, {"scale_factor": 2}, {})),
    "pixtral": (VARIED, {}, MERGED),
    "mistral3": (VARIED, {"spatial_merge_size": 1}, MERGED),
    "internvl": ({"size": SQUARE, "min_patches": 1, "max_patches": 12}, DYNAMIC, {}),
}
"""What each reads beside the common settings: of the image processor, config.json and processor."""
ODD: tuple[Any, ...] = (
    *(None, "x", "", [], ["a", "b", "c"], [[1]] * 3, {}, {"height": "a", "width": None}),
    *(True, False, -1, 0, 0.5, 3, 65_536, 10**30, 10**400, 1e308, float("nan"), float("inf")),
    *([0, 0, 0], [float("nan")] * 3, {"height": 65_536, "width": 65_536}),
    *({"shortest_edge": 65_536}, {"longest_edge": 65_536}, {"longest_edge": 1}),
    {"max_height": 1, "max_width": 65_536},
)  # fmt: skip
PICTURES = tuple(
    Frames(np.zeros((1, high, wide, 3), np.uint8)) for high, wide in ((45, 70), (90, 1))
)
MAX_MESSAGE = 300


def files_of(family: str) -> Files:
    found, config, processor = copy.deepcopy(FAMILIES[family])
    kind = "clip_vision_model" if family == "llava" else None
    vision = {"image_size": 56, "model_type": kind, "patch_size": 14}
    return {
        "config": {"model_type": family, "vision_config": vision} | config,
        "preprocessor_config": COMMON | found,
        "processor_config": processor,
    }


def changed(family: str) -> Iterator[tuple[str, Files]]:
    """Every setting in turn, of every odd value; each with its name."""
    for file, content in files_of(family).items():
        places: list[tuple[str, ...]] = [(name,) for name in content if name != "model_type"]
        places += [("vision_config", name) for name in content.get("vision_config", ())]
        for place in places:
            for value in ODD:
                files = files_of(family)
                holder = files[file] if len(place) == 1 else files[file][place[0]]
                holder[place[-1]] = value
                yield place[-1], files


def made(folder: Path, family: str, files: Files, profile: Profile) -> Preprocessor:
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    served = import_module(f"vcache_cli.preprocess.{family}").FAMILY
    settings = served.resolve(open_checkpoint(str(folder)), profile)
    preprocessor: Preprocessor = served.preprocessor(settings, profile)
    return preprocessor


def followed(
    folder: Path, family: str, files: Files, profile: Profile
) -> Preprocessor | ModelError:
    """The preprocessor, or why there is none."""
    try:
        return made(folder, family, files, profile)
    except ModelError as error:
        return error


def check_pictures(prepare: Preprocessor, name: str) -> None:
    """What is foretold is what is made, also where it is refused."""
    for frames in PICTURES:
        try:
            tokens = prepare.num_tokens(frames.width, frames.height)
            size_bytes = prepare.pixel_bytes(frames.width, frames.height)
        except EncodeError:
            with pytest.raises(EncodeError):
                prepare(frames)
            continue
        if size_bytes > 2**21:  # the most that is worth the time
            continue
        pixels = prepare(frames)
        assert (pixels.num_tokens, pixels.size_bytes) == (tokens, size_bytes), name


@pytest.mark.parametrize("profile", [TRANSFORMERS_PIL_5, MLX_VLM_0_7], ids=lambda found: found.name)
@pytest.mark.parametrize("family", FAMILIES)
def test_odd_settings_are_refused_or_followed(
    tmp_path: Path, family: str, profile: Profile
) -> None:
    """Never another exception, a page of digits, or a forecast that does not hold."""
    checked = [made(tmp_path, family, files_of(family), profile)]
    check_pictures(checked[0], "as published")
    for name, files in changed(family):
        prepare = followed(tmp_path, family, files, profile)
        if isinstance(prepare, ModelError):
            assert len(prepare.message) < MAX_MESSAGE, name
        elif prepare not in checked:  # a value that changes nothing makes the same again
            check_pictures(prepare, name)
            checked.append(prepare)
