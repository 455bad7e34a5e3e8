"""Pixels as an encoder takes them, turned back to pictures. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from numpy.typing import NDArray

    from vcache_cli.levels import LevelTable

__all__ = ["grid_times", "levels_of", "pictures_of"]

_CHANNELS: Final = 3
_MAX_SIDE: Final = 65_536


def levels_of(values: NDArray[Any], table: LevelTable | None = None) -> NDArray[np.uint8]:
    """The 8-bit levels that `values` stand for, in the same shape.

    With a table the level whose value is nearest; without one the range of the finite values is
    stretched to 0..255, since nobody knows how it came about.
    """
    if values.dtype == np.uint8:
        return values
    if table is None:
        return _stretched(values)
    channels = len(table.values)
    if not _holds(values, table):
        return _stretched(values)
    inner = math.prod(values.shape[table.channel_axis + 1 :]) * table.channel_stride
    apart = values.reshape(-1, channels, inner)
    levels = np.empty(apart.shape, np.uint8)
    for channel, row in enumerate(table.values):
        order = np.argsort(row, kind="stable")
        edges = (row[order][1:] + row[order][:-1]) / 2
        levels[:, channel] = order.astype(np.uint8)[np.searchsorted(edges, apart[:, channel])]
    return levels.reshape(values.shape)


def _holds(values: NDArray[Any], table: LevelTable) -> bool:
    """True where the channels of `table` have a place in `values`."""
    group = len(table.values) * table.channel_stride
    has_axis = 0 <= table.channel_axis < values.ndim and values.size > 0 < group
    return has_axis and values.shape[table.channel_axis] % group == 0


def _stretched(values: NDArray[Any]) -> NDArray[np.uint8]:
    with np.errstate(over="ignore", invalid="ignore"):
        plain = np.nan_to_num(values.astype(np.float32), posinf=0, neginf=0)
        low, high = (float(plain.min()), float(plain.max())) if plain.size else (0.0, 0.0)
        scale = 255 / (high - low) if math.isfinite(high - low) and high > low else 0.0
        levels: NDArray[np.uint8] = np.rint((plain - np.float32(low)) * scale).astype(np.uint8)
    return levels


def pictures_of(
    levels: NDArray[np.uint8], grid: tuple[int, int, int] | None, settings: Mapping[str, Any]
) -> NDArray[np.uint8] | None:
    """(N, H, W, 3) of pixels; None of a shape that no picture has.

    Args:
        levels: (3, H, W), (H, W, 3), (N, 3, H, W), or patches (P, 3 * T * side * side).
        grid: times, rows and columns of the patches.
        settings: resolved by the family: how patches are put together.
    """
    if levels.ndim == 2:
        return None if grid is None else _from_patches(levels, grid, settings)
    if levels.ndim == 3 and levels.shape[0] == _CHANNELS:
        levels = levels[np.newaxis]
    elif levels.ndim == 3 and levels.shape[2] == _CHANNELS:
        return levels[np.newaxis]
    if levels.ndim == 4 and levels.shape[1] == _CHANNELS and levels.size:
        return levels.transpose(0, 2, 3, 1)
    return None


def grid_times(grid: tuple[int, int, int], frames: int) -> int:
    """Frames to a time of the grid."""
    return max(1, frames // max(1, grid[0]))


def _from_patches(
    levels: NDArray[np.uint8], grid: tuple[int, int, int], settings: Mapping[str, Any]
) -> NDArray[np.uint8] | None:
    """Merged cells of patches back in their places; frames one after the other."""
    times, rows, columns = grid
    merge = _whole(settings.get("merge_size"), 2)
    temporal = _whole(settings.get("temporal_patch_size"), 2)
    side = math.isqrt(levels.shape[1] // (_CHANNELS * temporal))
    fits = (
        0 < times * rows * columns == len(levels)
        and levels.shape[1] == _CHANNELS * temporal * side * side
        and rows % merge == columns % merge == 0
    )
    if not fits:
        return None
    cells = levels.reshape(
        *(times, rows // merge, columns // merge, merge, merge, _CHANNELS, temporal, side, side)
    )
    ordered = cells.transpose(0, 6, 1, 3, 7, 2, 4, 8, 5)
    return ordered.reshape(times * temporal, rows * side, columns * side, _CHANNELS)


def _whole(value: Any, default: int) -> int:  # noqa: ANN401  as in the JSON
    return value if type(value) is int and 0 < value < _MAX_SIDE else default
