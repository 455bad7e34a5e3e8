"""Frames to compare video processors on, and settings as checkpoints carry them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vcache_cli.clips import ClipFacts
from vcache_cli.items import Frames
from vcache_cli.preprocess.video_families import INTERNVL_CLIP, SMOLVLM_CLIP
from vcache_cli.preprocess.video_qwen import (
    QWEN2_5_VL_CLIP,
    QWEN2_VL_CLIP,
    QWEN3_5_CLIP,
    QWEN3_VL_CLIP,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from vcache_cli.items import Pixels

__all__ = ["CLIPS", "FAMILIES", "PUBLISHED", "QWEN", "check_compact", "filmed", "made", "written"]

QWEN: Final = {
    each.name: each for each in (QWEN2_VL_CLIP, QWEN2_5_VL_CLIP, QWEN3_VL_CLIP, QWEN3_5_CLIP)
}
FAMILIES: Final[dict[str, Any]] = {
    **QWEN,
    **{each.name: each for each in (SMOLVLM_CLIP, INTERNVL_CLIP)},
}
CLIPS: Final = (
    *((1, 64, 96), (2, 50, 70), (3, 97, 61), (5, 240, 320), (8, 90, 160), (31, 36, 44)),
    *((64, 48, 64), (4, 20, 30), (6, 360, 640), (7, 33, 400)),
)
"""Frames, height and width of each; 7.5 frames a second."""

_CLIP: Final = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
_HALF: Final = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
_QWEN2: Final = {**_CLIP, "patch_size": 14, "merge_size": 2, "temporal_patch_size": 2}
_QWEN3: Final = {
    **_HALF,
    "patch_size": 16,
    "merge_size": 2,
    "temporal_patch_size": 2,
    "size": {"longest_edge": 25165824, "shortest_edge": 4096},
    "fps": 2,
}
_OLD: Final = {**_QWEN2, "min_pixels": 3136, "max_pixels": 12845056}
_SMALL: Final = {"longest_edge": 364}
PUBLISHED: Final[Mapping[str, Mapping[str, Any]]] = {
    "qwen2_vl": _OLD,
    "qwen2_5_vl": _OLD,
    "qwen3_vl": _QWEN3,
    "qwen3_5": _QWEN3,
    "smolvlm": {
        **_HALF,
        "max_image_size": _SMALL,
        "size": {"longest_edge": 728},
        "video_sampling": {"fps": 1, "max_frames": 64, "video_size": _SMALL},
    },
    "internvl": {**_CLIP, "size": {"height": 448, "width": 448}},
}
"""As the checkpoints of each family carry them."""

_CONFIG: Final = {
    "smolvlm": {"vision_config": {"patch_size": 14}, "scale_factor": 2},
    "internvl": {"vision_config": {"patch_size": [14, 14]}, "downsample_ratio": 0.5},
}
_TYPES: Final = {
    "smolvlm": "SmolVLMImageProcessor",
    "internvl": "GotOcr2ImageProcessorFast",
}


def written(folder: Path, name: str, found: Mapping[str, Any]) -> Path:
    """A model folder of that family with these settings of its video processor."""
    config = {"model_type": name, **_CONFIG.get(name, {})}
    (folder / "config.json").write_text(json.dumps(config))
    image = {**PUBLISHED[name], "image_processor_type": _TYPES.get(name, "Qwen2VLImageProcessor")}
    image.pop("video_sampling", None)
    (folder / "preprocessor_config.json").write_text(json.dumps(image))
    (folder / "video_preprocessor_config.json").write_text(json.dumps(dict(found)))
    return folder


def filmed(count: int, height: int, width: int) -> tuple[NDArray[np.uint8], ClipFacts]:
    """Frames of noise on a slope: every level and every neighbourhood."""
    chance = np.random.default_rng(count * height * width)
    noise = chance.integers(0, 256, (count, height, width, 3))
    slope = np.linspace(0, 255, width)[np.newaxis, np.newaxis, :, np.newaxis]
    rgb = np.where(chance.random((count, height, width, 1)) < 0.3, noise, slope)
    return rgb.astype(np.uint8), ClipFacts(count, 7.5, count / 7.5, width, height)


def made(preprocessor: Any, rgb: NDArray[np.uint8], facts: ClipFacts) -> Pixels:  # noqa: ANN401
    """Planned, fitted and preprocessed."""
    plan = preprocessor.plan(facts)
    fitted = np.stack([plan.fit(rgb[index]) for index in plan.indices])
    assert fitted.shape[1:3] == plan.size
    pixels: Pixels = preprocessor(Frames(fitted))
    assert pixels.num_tokens == preprocessor.num_tokens(facts)
    assert pixels.size_bytes == preprocessor.pixel_bytes(facts)
    check_compact(preprocessor, Frames(fitted), facts, pixels)
    return pixels


def check_compact(preprocessor: Any, frames: Frames, facts: ClipFacts, plain: Pixels) -> None:  # noqa: ANN401
    packed = preprocessor.compact(frames)
    tables = sum(table.values.nbytes for table in packed.tables.values())
    assert packed.size_bytes + tables == preprocessor.pixel_bytes(facts, compact=True)
    for name, array in packed.expanded().tensors.items():
        assert np.array_equal(array, plain.tensors[name])
