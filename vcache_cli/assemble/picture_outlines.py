"""Where on a source the parts lie that a model sees, and where its tokens lie. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from vcache_cli.drawing import Box
from vcache_cli.preprocess.geometry import crop_span, resized_size
from vcache_cli.preprocess.pan_and_scan import crop_boxes
from vcache_cli.preprocess.tiles import TilePreprocessor

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["columns_for", "outlines", "tile_columns", "token_layout"]


def outlines(preprocessor: object, height: int, width: int) -> tuple[Box, ...]:
    """The tiles or crops of a picture of `height` x `width` pixels; none where it is seen whole."""
    settings: Mapping[str, Any] = getattr(preprocessor, "settings", {})
    if isinstance(preprocessor, TilePreprocessor):
        plan = preprocessor.layout(settings, height, width)
        return _grid(plan.rows, plan.columns)
    if scan := settings.get("pan_and_scan"):
        return tuple(
            Box(top / height, left / width, bottom / height, right / width, str(number))
            for number, (top, bottom, left, right) in enumerate(
                crop_boxes(height, width, **scan), start=1
            )
        )
    if settings.get("do_center_crop"):
        return (_centre(settings, height, width),)
    return ()


def tile_columns(
    preprocessor: object, height: int, width: int
) -> tuple[int | None, Literal[0, -1] | None]:
    """Tiles in a row, and which tile is of the whole picture; None where there is no such thing."""
    settings: Mapping[str, Any] = getattr(preprocessor, "settings", {})
    if isinstance(preprocessor, TilePreprocessor):
        plan = preprocessor.layout(settings, height, width)
        return plan.columns, -1 if plan.overview else None
    if settings.get("pan_and_scan") and outlines(preprocessor, height, width):
        return None, 0
    return None, None


def _grid(rows: int, columns: int) -> tuple[Box, ...]:
    if rows * columns < 2:
        return ()
    return tuple(
        Box(
            row / rows,
            column / columns,
            (row + 1) / rows,
            (column + 1) / columns,
            str(row * columns + column + 1),
        )
        for row in range(rows)
        for column in range(columns)
    )


def _centre(settings: Mapping[str, Any], height: int, width: int) -> Box:
    """What a crop of the middle leaves of the source."""
    high, wide = height, width
    if settings["do_resize"]:
        high, wide = resized_size(height, width, settings["size"])
    top, bottom, _, _ = crop_span(high, settings["crop_size"]["height"])
    left, right, _, _ = crop_span(wide, settings["crop_size"]["width"])
    return Box(top / high, left / wide, bottom / high, right / wide, "seen")


def token_layout(
    shapes: Mapping[str, tuple[int, ...]],
    grid: tuple[int, int, int] | None,
    settings: Mapping[str, Any],
) -> tuple[int, tuple[int, int] | None]:
    """Pictures that have tokens of their own, and rows and columns of them where they are known.

    Args:
        shapes: of the pixels, by name; empty where they are not there.
        grid: times, rows and columns of patches.
        settings: resolved by the family.
    """
    if grid is not None:
        merge = _whole(settings.get("merge_size"), 2)
        return max(1, grid[0]), (grid[1] // merge, grid[2] // merge)
    shape = next((shape for name, shape in shapes.items() if name.startswith("pixel")), ())
    if len(shape) == 4:
        return shape[0], None
    side = _whole(settings.get("patch_size"), 0)
    if len(shape) == 3 and side:
        return 1, (shape[1] // side, shape[2] // side)
    return 1, None


def _whole(value: Any, default: int) -> int:  # noqa: ANN401  as in the JSON
    return value if type(value) is int and value > 0 else default


def columns_for(cells: int) -> int:
    """Columns of a sheet that is about as wide as high."""
    return max(1, math.isqrt(max(0, cells - 1)) + 1)
