"""The size that frames of a clip are brought to: pure arithmetic, as each server rounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import EncodeError
from vcache_cli.preprocess.geometry import MAX_ASPECT_RATIO, grid_size

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

__all__ = ["PER_CLIP", "PER_CLIP_CEIL", "PER_FRAME", "clip_size"]

PER_FRAME: Final = "per-frame"
"""Limits hold for one frame: transformers, Qwen2-VL and Qwen2.5-VL."""
PER_CLIP: Final = "per-clip"
"""Limits hold for all frames together: transformers, Qwen3-VL."""
PER_CLIP_CEIL: Final = "per-clip-ceil"
"""The same, with the frames counted up to whole times, and no small frames: mlx-vlm."""

_LEAST_OVER: Final = 1.05
_SHARE_OF_CONTEXT: Final = 0.9


def clip_size(
    settings: Mapping[str, Any], num_frames: int, height: int, width: int
) -> tuple[int, int]:
    """Height and width of the frames of a clip, multiples of the factor.

    Args:
        settings: `size_rule`, `do_resize`, `patch_size`, `merge_size`, `temporal_patch_size`,
            `min_pixels`, `max_pixels`, and `frame_tokens` (or None): the cap of qwen-vl-utils.
        num_frames: taken of the clip.
        height, width: of the source, pixels.

    Raises:
        EncodeError: kind ``aspect_ratio``, ``size`` or ``sampling``: the server refuses it.
    """
    factor = settings["patch_size"] * settings["merge_size"]
    if not settings["do_resize"]:
        if height % factor or width % factor:
            raise _too_small(f"sides of {width} x {height} are no multiples of {factor}")
        return height, width
    limits = {"min_pixels": settings["min_pixels"], "max_pixels": _most(settings, num_frames)}
    if settings["size_rule"] == PER_FRAME:
        return grid_size(height, width, factor=factor, **limits)
    if settings["size_rule"] == PER_CLIP:
        if num_frames < settings["temporal_patch_size"]:
            message = f"{num_frames} frames, expected {settings['temporal_patch_size']} up"
            raise EncodeError(message, kind="sampling", hint="leave it out")
        height, width = _enlarged(height, width, factor)
    elif min(height, width) < factor:
        raise _too_small(f"{width} x {height} pixels, expected sides of {factor} up")
    return _whole_clip(settings, num_frames, (height, width), **limits)


def _too_small(message: str) -> EncodeError:
    return EncodeError(message, kind="size", hint="leave it out of the corpus")


def _most(settings: Mapping[str, Any], num_frames: int) -> int:
    """The upper limit, with the cap of qwen-vl-utils where a checkpoint asks for it."""
    most, least = int(settings["max_pixels"]), int(settings["min_pixels"])
    if settings.get("frame_tokens") is None:
        return most
    token = (settings["patch_size"] * settings["merge_size"]) ** 2
    if settings["size_rule"] == PER_FRAME:
        total = int(settings["frame_tokens"] * token * _SHARE_OF_CONTEXT)
        share = int(total * settings["temporal_patch_size"] // num_frames)
        return max(min(most, share), int(least * _LEAST_OVER))
    share = min(settings["frame_tokens"] * token, most // num_frames)
    return int(max(share, int(least * _LEAST_OVER)) * num_frames)


def _enlarged(height: int, width: int, factor: int) -> tuple[int, int]:
    if min(height, width) >= factor:
        return height, width
    scale = max(factor / height, factor / width)
    return int(height * scale), int(width * scale)


def _whole_clip(
    settings: Mapping[str, Any],
    num_frames: int,
    size: tuple[int, int],
    *,
    min_pixels: int,
    max_pixels: int,
) -> tuple[int, int]:
    ratio = max(size) / min(size)
    if ratio > MAX_ASPECT_RATIO:
        raise EncodeError(
            f"absolute aspect ratio must be smaller than {MAX_ASPECT_RATIO}, got {ratio}",
            kind="aspect_ratio",
            hint="crop the video, or exclude it",
        )
    factor, step = settings["patch_size"] * settings["merge_size"], settings["temporal_patch_size"]
    rounded = round if settings["size_rule"] == PER_CLIP else math.ceil
    times = rounded(num_frames / step) * step
    near = [round(side / factor) * factor for side in size]
    area = num_frames * size[0] * size[1]
    if times * math.prod(near) > max_pixels:
        scale = math.sqrt(area / max_pixels)
        near = [max(factor, math.floor(side / scale / factor) * factor) for side in size]
    elif times * math.prod(near) < min_pixels:
        scale = math.sqrt(min_pixels / area)
        near = [math.ceil(side * scale / factor) * factor for side in size]
    return near[0], near[1]
