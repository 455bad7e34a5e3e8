"""Where the patches of a picture lie: positions, rotary angles, windows, interpolation.

A grid is (frames, rows, columns) of patches, as `image_grid_thw` has it. Patches come frame by
frame, and within a frame block by block of `merge` x `merge`, so that the patches which become
one token are neighbours. All arithmetic of angles and weights is in float32, as in torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]
    Integers: TypeAlias = NDArray[np.int64]

__all__ = ["Grid", "Taps", "Windows", "frame_lengths", "places", "rotary", "taps", "windows"]

Grid: TypeAlias = tuple[int, int, int]
"""Frames, rows and columns of patches."""


@dataclass(frozen=True, slots=True)
class Taps:
    """What each patch takes of a learnt table of positions."""

    rows: Integers
    """(patches, 4): rows of the table."""
    weights: Floats
    """(patches, 4): their shares, which sum to 1."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The order in which windowed attention wants the tokens, and where its windows end."""

    order: Integers
    """(tokens,): which token comes first, second, ..."""
    inverse: Integers
    """(tokens,): takes tokens of that order back to their own."""
    lengths: tuple[int, ...]
    """Patches of each window."""


def places(grids: Sequence[Grid], *, merge: int) -> Integers:
    """(2, patches): row and column of every patch, in the order of the pixels.

    >>> places([(1, 2, 4)], merge=2).tolist()
    [[0, 0, 1, 1, 0, 0, 1, 1], [0, 1, 0, 1, 2, 3, 2, 3]]
    """
    return np.concatenate([_places(grid, merge) for grid in grids], axis=1)


def _places(grid: Grid, merge: int) -> Integers:
    frames, height, width = grid
    cells = np.indices((height, width)).reshape(2, height // merge, merge, width // merge, merge)
    return np.tile(cells.transpose(0, 1, 3, 2, 4).reshape(2, -1), (1, frames))


def frame_lengths(grids: Sequence[Grid]) -> tuple[int, ...]:
    """Patches of each frame: those that attend to each other."""
    return tuple(height * width for frames, height, width in grids for _ in range(frames))


def rotary(where: Integers, *, width: int, theta: float) -> tuple[Floats, Floats]:
    """Cosine and sine of every patch's angles, each (patches, width / 2).

    The first half of a head's channels turns with the second: of each half, the first half by
    the row and the second by the column.

    Args:
        where: rows and columns, of `places`.
        width: channels of a head, a multiple of 4.
        theta: the base of the frequencies.
    """
    steps = np.arange(0, width // 2, 2, dtype=np.float32) / np.float32(width // 2)
    frequencies = np.float32(1) / np.float32(theta) ** steps
    angles = where[:, :, None].astype(np.float32) * frequencies
    both = np.concatenate([angles[0], angles[1]], axis=1)
    return np.cos(both), np.sin(both)


def windows(grids: Sequence[Grid], *, merge: int, side: int) -> Windows:
    """Tokens window by window, of `side` x `side` tokens or what is left at the edges.

    Args:
        grids: of all items, one after the other.
        merge: a token is `merge` x `merge` patches.
        side: tokens along a window's side.
    """
    found: list[Integers] = []
    begin = 0
    for frames, height, width in grids:
        shape = frames, height // merge, width // merge
        count = shape[0] * shape[1] * shape[2]
        found += _cut(np.arange(begin, begin + count).reshape(shape), side)
        begin += count
    order = np.concatenate(found)
    return Windows(order, np.argsort(order), tuple(len(each) * merge**2 for each in found))


def _cut(tokens: NDArray[Any], side: int) -> list[Integers]:
    frames, height, width = tokens.shape
    return [
        tokens[frame, top : top + side, left : left + side].reshape(-1)
        for frame in range(frames)
        for top in range(0, height, side)
        for left in range(0, width, side)
    ]


def taps(grids: Sequence[Grid], *, merge: int, side: int) -> Taps:
    """How a learnt table of `side` x `side` positions is stretched over each item's grid.

    Corners meet corners; in between, four neighbours are mixed by their distance.
    """
    parts = [_taps(grid, merge, side) for grid in grids]
    rows, weights = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Taps(rows, weights)


def _taps(grid: Grid, merge: int, side: int) -> tuple[Integers, Floats]:
    where = _places(grid, merge)
    rows, row_shares = _axis_taps(where[0], grid[1], side)
    columns, column_shares = _axis_taps(where[1], grid[2], side)
    cells = rows[:, :, None] * side + columns[:, None, :]
    shares = row_shares[:, :, None] * column_shares[:, None, :]
    return cells.reshape(-1, 4), shares.reshape(-1, 4)


def _axis_taps(index: Integers, size: int, side: int) -> tuple[Integers, Floats]:
    """The two neighbours along one axis, and their shares."""
    source = index.astype(np.float32) * np.float32(side - 1) / np.float32(max(size - 1, 1))
    low = np.floor(source)
    share = source - low
    first = low.astype(np.int64)
    neighbours = np.stack([first, np.minimum(first + 1, side - 1)], axis=1)
    return neighbours, np.stack([1 - share, share], axis=1)
