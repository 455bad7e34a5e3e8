"""Features as colours: the three directions in which the tokens of a picture differ most. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from typing import Final

    from numpy.typing import NDArray

__all__ = ["feature_colours", "feature_grid"]

_MAX_TOKENS: Final = 512
"""Of which the directions are taken; spread evenly over all."""
_MAX_WIDTH: Final = 8192
_DIRECTIONS: Final = 3
_EDGES: Final = (2.0, 98.0)
"""Percentiles that become darkest and brightest: single tokens stand far out."""


def feature_colours(features: NDArray[Any]) -> tuple[NDArray[np.uint8], float]:
    """(N, 3) colours of (N, width) features, and the share of the variance that they show, 0..1.

    The same features always give the same colours. Values that are no number count as 0.
    """
    tokens = np.nan_to_num(features[:, :_MAX_WIDTH].astype(np.float32), posinf=0, neginf=0)
    tokens /= max(1e-30, float(np.abs(tokens).max(initial=0)))
    tokens -= tokens.mean(axis=0, keepdims=True)
    sample = tokens[:: math.ceil(len(tokens) / _MAX_TOKENS)].astype(np.float64)
    _, strengths, directions = np.linalg.svd(sample, full_matrices=False)
    powers = strengths**2
    total = float(powers.sum())
    share = float(powers[:_DIRECTIONS].sum()) / total if total > 0 else 0.0
    colours = np.full((len(tokens), _DIRECTIONS), 128, np.uint8)
    for number, direction in enumerate(directions[:_DIRECTIONS]):
        if total <= 0 or powers[number] <= 1e-12 * total:
            break
        colours[:, number] = _stretched(tokens @ _signed(direction))
    return colours, share


def _signed(direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest part of a direction is positive: a decomposition may give either sign."""
    return direction if direction[np.argmax(np.abs(direction))] >= 0 else -direction


def _stretched(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    low, high = np.percentile(values, _EDGES)
    if high <= low:
        low, high = float(values.min()), float(values.max())
    scaled = (values - low) / (high - low if high > low else 1.0)
    levels: NDArray[np.uint8] = np.rint(np.clip(scaled, 0, 1) * 255).astype(np.uint8)
    return levels


def feature_grid(num_tokens: int, grid: tuple[int, int] | None) -> tuple[int, int, int]:
    """Rows and columns in which tokens lie, and how many at the front lie in none.

    Args:
        num_tokens: all of them.
        grid: rows and columns where they are known.

    >>> feature_grid(12, (3, 4)), feature_grid(50, None), feature_grid(7, None)
    ((3, 4, 0), (7, 7, 1), (1, 7, 0))
    """
    if grid is not None:
        rows, columns = grid
        if 0 < rows * columns <= num_tokens and num_tokens - rows * columns <= 1:
            return rows, columns, num_tokens - rows * columns
    for extra in (0, 1):  # a token for the whole picture stands first
        side = math.isqrt(max(0, num_tokens - extra))
        if side > 1 and side * side == num_tokens - extra:
            return side, side, extra
    columns = min(num_tokens, 64)
    return (num_tokens // columns if columns else 0), columns, 0
