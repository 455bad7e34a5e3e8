"""Idefics 3: the long side to a fixed length, then tiles row by row and the whole picture last."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import ModelError
from vcache_cli.preprocess.processors import checked
from vcache_cli.preprocess.settings import (
    check_type,
    patch_side,
    pixel_side,
    processor_json,
    resample_filter,
)
from vcache_cli.preprocess.tiles import TilePlan, TilePreprocessor, value_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.profile import Profile

__all__ = ["FAMILY", "Idefics3Family", "idefics3_plan"]

MAX_SIDE: Final = 4096
"""Longest side after the first resize, whatever the settings say."""
BILINEAR: Final = 2
"""What the server's resize takes where the settings name no filter."""
PATCH_SIDE: Final = 32
"""Of the server's vision configuration."""

DEFAULTS: Final[Mapping[str, Any]] = {
    "default_to_square": True,
    "do_convert_rgb": True,
    "do_image_splitting": True,
    "do_normalize": True,
    "do_pad": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "max_image_size": {"longest_edge": 364},
    "resample": 1,
    "rescale_factor": 1 / 255,
    "size": {"longest_edge": 1456},
}
"""Those of the server's image processors, of which SmolVLM's is a copy."""


@dataclass(frozen=True, slots=True)
class Idefics3Family:
    """Preprocessing of Idefics 3 and of what is built like it."""

    name: str
    """The `model_type`."""
    revision: int
    """Bumped by any change of ours that changes pixels."""
    mlx_patch_side: int = PATCH_SIDE
    """Side of a patch where the checkpoint does not say, for mlx-vlm; pixels."""

    def resolve(self, checkpoint: Checkpoint, profile: Profile) -> dict[str, Any]:
        """Settings as the server resolves them: JSON values, every default filled in.

        Both servers use the image processors of transformers.

        Raises:
            ModelError: no settings, or some that cannot be followed.
        """
        found = processor_json(checkpoint)
        own = checkpoint.config.get("model_type") == self.name
        check_type(found, ("Idefics3ImageProcessor", "SmolVLMImageProcessor"), default=own)
        every = {**DEFAULTS, **{name: found[name] for name in DEFAULTS if name in found}}
        settings = value_settings(found, DEFAULTS)
        settings |= {name: bool(every[name]) for name in ("do_resize", "do_image_splitting")}
        if settings["do_resize"]:
            settings["size"] = _size(every["size"], square=every["default_to_square"])
        unnamed = every["resample"] is None and not settings["do_resize"]
        settings["resample"] = BILINEAR if unnamed else resample_filter(every["resample"])
        side = _tile_side(every["max_image_size"])
        settings["tile"] = {"height": side, "width": side}
        patch = self.mlx_patch_side if profile.processors == "mlx-vlm" else PATCH_SIDE
        settings["tile_tokens"] = _tile_tokens(checkpoint.config, side, default_patch=patch)
        settings |= {"batch_axis": True, "pixel_mask": bool(every["do_pad"])}
        return settings

    def preprocessor(self, settings: Mapping[str, Any], profile: Profile) -> TilePreprocessor:
        """The preprocessor of resolved settings.

        Raises:
            ModelError: the profile's processors are not known here, or give no finite pixels.
        """
        return checked(TilePreprocessor(dict(settings), idefics3_plan), profile)


def idefics3_plan(settings: Mapping[str, Any], height: int, width: int) -> TilePlan:
    """Sizes and tiles for a picture of `height` x `width` pixels.

    >>> settings = {"do_resize": True, "size": {"longest_edge": 1456}, "do_image_splitting": True}
    >>> idefics3_plan(settings | {"tile": {"height": 364, "width": 364}}, 480, 640)
    TilePlan(resizes=((1092, 1456), (1092, 1456)), rows=3, columns=4, overview='canvas')
    """
    side = settings["tile"]["height"]
    resizes = []
    if settings["do_resize"]:
        height, width = _enlarged(height, width, settings["size"])
        resizes.append((height, width))
    if not settings["do_image_splitting"]:
        return TilePlan((*resizes, (side, side)), 1, 1)
    height, width = _whole_tiles(height, width, side)
    rows, columns = height // side, width // side
    resizes.append((height, width))
    return TilePlan(tuple(resizes), rows, columns, "canvas" if rows * columns > 1 else "")


def _enlarged(height: int, width: int, size: Mapping[str, int]) -> tuple[int, int]:
    """Height and width after the first resize; the other side becomes even first."""
    longest = size.get("longest_edge")
    if longest is None:
        return size["height"], size["width"]
    ratio = width / height
    if width >= height:
        height, width = _even(int(longest / ratio)), longest
    else:
        height, width = longest, _even(int(longest * ratio))
    height, width = max(height, 1), max(width, 1)
    if max(height, width) <= MAX_SIDE:
        return height, width
    ratio = width / height
    if width >= height:
        return max(int(MAX_SIDE / ratio), 1), MAX_SIDE
    return MAX_SIDE, max(int(MAX_SIDE * ratio), 1)


def _even(length: int) -> int:
    return length + length % 2


def _whole_tiles(height: int, width: int, side: int) -> tuple[int, int]:
    """Height and width that whole tiles fill; the shorter follows the longer. May be 0."""
    ratio = width / height
    if width >= height:
        width = _ceiled(width, side)
        return _ceiled(int(width / ratio), side), width
    height = _ceiled(height, side)
    return height, _ceiled(int(height * ratio), side)


def _ceiled(length: int, side: int) -> int:
    return math.ceil(length / side) * side


def _size(value: Any, *, square: Any) -> dict[str, int]:  # noqa: ANN401  as in the JSON
    if isinstance(value, int) and not isinstance(value, bool) and square:
        value = {"height": value, "width": value}
    elif isinstance(value, list) and len(value) == 2:
        value = {"height": value[0], "width": value[1]}
    keys = set(value) if isinstance(value, dict) else set()
    if keys in ({"longest_edge"}, {"longest_edge", "shortest_edge"}):
        return {"longest_edge": pixel_side("size.longest_edge", value["longest_edge"])}
    if keys == {"height", "width"}:
        return {key: pixel_side(f"size.{key}", value[key]) for key in sorted(keys)}
    raise ModelError(f"`size`: expected longest_edge, or height+width; found {value!r:.80}")


def _tile_side(value: Any) -> int:  # noqa: ANN401  as in the JSON
    if not isinstance(value, dict):
        raise ModelError(f"`max_image_size`: expected longest_edge, found {value!r:.80}")
    return pixel_side("max_image_size.longest_edge", value.get("longest_edge"))


def _tile_tokens(config: Mapping[str, Any], side: int, *, default_patch: int) -> int:
    """Rows of projected features of a tile: squares of `scale_factor` patches each way are one.

    Raises:
        ModelError: such squares do not fill a tile.
    """
    patch = patch_side(config, default=default_patch)
    scale = config.get("scale_factor", 2)
    if not isinstance(scale, int) or scale < 1 or side // patch % scale or side < patch:
        raise ModelError(
            f"a tile of {side} x {side} pixels: expected patches of {patch} pixels in squares of "
            f"`scale_factor` {scale!r:.40}"
        )
    return int((side // patch // scale) ** 2)


FAMILY: Final = Idefics3Family(name="idefics3", revision=1)
