"""InternVL: a grid of tiles whose shape is nearest the picture's, and the whole picture last."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from vcache_cli.checkpoint.tokens import token_number
from vcache_cli.errors import ModelError
from vcache_cli.preprocess.lookup import DIVIDE_F32
from vcache_cli.preprocess.processors import checked
from vcache_cli.preprocess.settings import (
    check_type,
    count,
    patch_side,
    pixel_side,
    processor_json,
    resample_filter,
)
from vcache_cli.preprocess.tiles import TilePlan, TilePreprocessor, value_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.profile import Profile

__all__ = ["FAMILY", "InternVLFamily", "internvl_plan"]

Grid = tuple[int, int]
"""Columns and rows."""

MORE_TILES: Final = "more-tiles"
"""transformers: of two grids equally near, the later, unless it has over twice the pixels."""
CLOSEST_AREA: Final = "closest-area"
"""mlx-vlm: of two grids equally near, the one whose area is closer to the picture's."""
MAX_TILES: Final = 256
BILINEAR: Final = 2
"""What the server's resize takes where the settings name no filter."""
BICUBIC: Final = 3
PATCH_SIDE: Final = 14
"""Of both servers' vision configurations."""
TILE_MARK: Final = "<IMG_CONTEXT>"
"""mlx-vlm's processor for the layout of the makers gives its number beside the pixels."""
IMAGE_SIDE: Final = 448
"""Of mlx-vlm."""

DEFAULTS: Final[Mapping[str, Any]] = {
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "max_patches": 12,
    "min_patches": 1,
    "resample": BICUBIC,
    "rescale_factor": 1 / 255,
    "size": {"height": 384, "width": 384},
}
"""Those of the image processor of GOT-OCR 2, which transformers takes for InternVL."""

MLX_COLOURS: Final[Mapping[str, Any]] = {
    "do_convert_rgb": False,
    "do_normalize": True,
    "do_rescale": True,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
    "rescale_factor": 1 / 255,
}
"""mlx-vlm's own processor reads none of these from the checkpoint."""


@dataclass(frozen=True, slots=True)
class InternVLFamily:
    """Preprocessing of InternVL, in the layout of transformers and in that of its makers."""

    name: str
    """The `model_type`."""
    revision: int
    """Bumped by any change of ours that changes pixels."""

    def resolve(self, checkpoint: Checkpoint, profile: Profile) -> dict[str, Any]:
        """Settings as the server resolves them: JSON values, every default filled in.

        Raises:
            ModelError: no settings, or some that cannot be followed.
        """
        if profile.processors == "mlx-vlm":
            settings = _mlx_settings(checkpoint)
        else:
            settings = _transformers_settings(checkpoint)
        settings["tile_tokens"] = _tile_tokens(checkpoint.config, settings["tile"])
        return settings | {"pixel_mask": False}

    def preprocessor(self, settings: Mapping[str, Any], profile: Profile) -> TilePreprocessor:
        """The preprocessor of resolved settings.

        Raises:
            ModelError: the profile's processors are not known here, or give no finite pixels.
        """
        return checked(TilePreprocessor(dict(settings), internvl_plan), profile)


def internvl_plan(settings: Mapping[str, Any], height: int, width: int) -> TilePlan:
    """Sizes and tiles for a picture of `height` x `width` pixels.

    >>> settings = {"tile": {"height": 448, "width": 448}, "min_tiles": 1, "max_tiles": 12}
    >>> settings |= {"overview": True, "grid": "more-tiles"}
    >>> internvl_plan(settings, 480, 640)
    TilePlan(resizes=((1344, 1792),), rows=3, columns=4, overview='picture')
    """
    tile = settings["tile"]
    columns, rows = _nearest_grid(settings, height, width)
    overview = "picture" if settings["overview"] and rows * columns > 1 else ""
    return TilePlan(((rows * tile["height"], columns * tile["width"]),), rows, columns, overview)


def _nearest_grid(settings: Mapping[str, Any], height: int, width: int) -> Grid:
    rule = settings["grid"]
    area, tile_area = height * width, settings["tile"]["height"] * settings["tile"]["width"]
    best, least = (1, 1), float("inf")
    for grid in _grids(rule, settings["min_tiles"], settings["max_tiles"]):
        distance = abs(width / height - grid[0] / grid[1])
        if distance < least:
            best, least = grid, distance
        elif distance == least:
            wanted, kept = (tile_area * columns * rows for columns, rows in (grid, best))
            if _preferred(rule, area, wanted, kept):
                best = grid
    return best


def _preferred(rule: str, area: int, wanted: int, kept: int) -> bool:
    """Whether a grid of `wanted` pixels wins over one of `kept`, for a picture of `area`."""
    if rule == MORE_TILES:
        return 2 * area > wanted
    return abs(area - wanted) < abs(area - kept)


@lru_cache(maxsize=16)
def _grids(rule: str, fewest: int, most: int) -> tuple[Grid, ...]:
    """Grids of `fewest` to `most` tiles, those of fewer tiles first."""
    sides = range(1, most + 1)
    found: Iterable[Grid] = [(c, r) for c in sides for r in sides if fewest <= c * r <= most]
    if rule == CLOSEST_AREA:
        found = _as_a_set(fewest, most)
    return tuple(sorted(found, key=lambda grid: grid[0] * grid[1]))


def _as_a_set(fewest: int, most: int) -> set[Grid]:
    """Grids in the order of a set that was filled as mlx-vlm fills it: it decides some ties."""
    return {
        (columns, rows)
        for longest in range(fewest, most + 1)
        for columns in range(1, longest + 1)
        for rows in range(1, longest + 1)
        if fewest <= columns * rows <= most
    }


def _transformers_settings(checkpoint: Checkpoint) -> dict[str, Any]:
    """Whatever the checkpoint says of `crop_to_patches`, InternVL's processor turns it on."""
    found = processor_json(checkpoint)
    own = checkpoint.config.get("model_type") == "internvl"
    check_type(found, ("GotOcr2ImageProcessor",), default=own)
    every = {**DEFAULTS, **{name: found[name] for name in DEFAULTS if name in found}}
    settings = value_settings(found, DEFAULTS)
    if not every["do_resize"] and every["max_patches"] == 1:
        raise ModelError("`do_resize` off with `max_patches` 1: tiles would have no one size")
    unnamed = every["resample"] is None and not every["do_resize"]
    settings["resample"] = BILINEAR if unnamed else resample_filter(every["resample"])
    settings["tile"] = _tile(every["size"])
    settings |= _counts(every, ("min_patches", "max_patches"))
    if settings["max_tiles"] == 1:
        settings["min_tiles"] = 1
    return settings | {"grid": MORE_TILES, "overview": True, "batch_axis": False}


def _mlx_settings(checkpoint: Checkpoint) -> dict[str, Any]:
    """mlx-vlm's own processor reads sizes from ``config.json``, and no image processor's file."""
    config, vision = checkpoint.config, checkpoint.config.get("vision_config")
    side = vision.get("image_size", IMAGE_SIDE) if isinstance(vision, dict) else IMAGE_SIDE
    if config.get("model_type") == "internvl":
        side = side[0] if isinstance(side, list) and side else side
    else:
        side = checkpoint.processor.get("image_size", config.get("force_image_size", side))
    if not isinstance(side, int):
        raise ModelError(f"`image_size`: expected one side of a tile, found {side!r:.40}")
    settings = value_settings({}, MLX_COLOURS)
    if config.get("model_type") == "internvl_chat":
        settings["image_token_index"] = token_number(checkpoint.folder, TILE_MARK)
    settings["tile"] = _tile(side)
    settings |= _counts(config, ("min_dynamic_patch", "max_dynamic_patch"))
    settings |= {"arithmetic": DIVIDE_F32, "resample": BICUBIC, "grid": CLOSEST_AREA}
    return settings | {"overview": bool(config.get("use_thumbnail", True)), "batch_axis": True}


def _tile(value: Any) -> dict[str, int]:  # noqa: ANN401  as in the JSON
    if isinstance(value, int):
        value = {"height": value, "width": value}
    elif isinstance(value, list) and len(value) == 2:
        value = {"height": value[0], "width": value[1]}
    if not isinstance(value, dict) or set(value) != {"height", "width"}:
        raise ModelError(f"`size`: expected height and width of a tile, found {value!r:.80}")
    return {key: pixel_side(f"size.{key}", value[key]) for key in sorted(value)}


def _counts(found: Mapping[str, Any], names: tuple[str, str]) -> dict[str, int]:
    fewest, most = names
    return {
        "min_tiles": count(fewest, found.get(fewest, 1), most=MAX_TILES),
        "max_tiles": count(most, found.get(most, 12), most=MAX_TILES),
    }


def _tile_tokens(config: Mapping[str, Any], tile: Mapping[str, int]) -> int:
    """Rows of projected features of a tile.

    Raises:
        ModelError: `downsample_ratio` does not divide its patches.
    """
    patch = patch_side(config, default=PATCH_SIDE)
    high, wide = tile["height"] // patch, tile["width"] // patch
    ratio = config.get("downsample_ratio", 0.5)
    if not isinstance(ratio, int | float) or not 0 < ratio <= 1:
        raise ModelError(f"`downsample_ratio`: expected over 0, at most 1; found {ratio!r:.40}")
    rows, columns = high * ratio, wide * ratio
    if rows % 1 or columns % 1 or not rows * columns:
        raise ModelError(
            f"a tile of {high} x {wide} patches: cannot be brought down by `downsample_ratio` "
            f"{ratio}"
        )
    return int(rows * columns)


FAMILY: Final = InternVLFamily(name="internvl", revision=1)
