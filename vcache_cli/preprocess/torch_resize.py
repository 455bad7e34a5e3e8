"""Resizes as torch does them on uint8 pictures, bit for bit, without torch.

Weights are rounded to 16 bits with as many fraction bits as the largest allows, where Pillow's
have 32: one level of difference here and there.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vcache_cli.preprocess.levels import check_resize

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from numpy.typing import NDArray

__all__ = ["TORCH_FILTERS", "torch_resized"]

_SHARPNESS: Final = -0.5
"""Of the cubic filter where pictures are made smaller without gaps."""


class _Taps(NamedTuple):
    """What one axis is multiplied with: row by row of the result, tap by tap."""

    places: NDArray[np.intp]
    """(taps, length) of the source; where a weight is 0, any."""
    weights: NDArray[np.int32]
    """(taps, length)."""
    fraction_bits: int


def torch_resized(
    levels: NDArray[np.uint8], height: int, width: int, resample: int
) -> NDArray[np.uint8]:
    """(height, width, 3) of (H, W, 3) `levels`.

    Args:
        resample: Pillow's number of the filter, one of `TORCH_FILTERS`.

    Raises:
        EncodeError: see `check_resize`.
    """
    check_resize((levels.shape[0], levels.shape[1]), (height, width))
    if width != levels.shape[1]:
        across = _along_first(levels.transpose(1, 0, 2), width, resample)
        levels = across.transpose(1, 0, 2)
    if height != levels.shape[0]:
        levels = _along_first(levels, height, resample)
    return np.ascontiguousarray(levels)


def _along_first(levels: NDArray[np.uint8], length: int, resample: int) -> NDArray[np.uint8]:
    taps = _taps(levels.shape[0], length, resample)
    source = np.ascontiguousarray(levels).astype(np.int32)
    half = 1 << (taps.fraction_bits - 1)
    sums = np.full((length, *levels.shape[1:]), half, np.int32)
    for place, weight in zip(taps.places, taps.weights, strict=True):
        part = source[place]
        part *= weight[:, np.newaxis, np.newaxis]
        sums += part
    sums >>= taps.fraction_bits
    return np.clip(sums, 0, 255, out=sums).astype(np.uint8)


@lru_cache(maxsize=64)
def _taps(before: int, after: int, resample: int) -> _Taps:
    """Each result is a weighted sum of its neighbours; further ones where it gets smaller."""
    curve, reach = TORCH_FILTERS[resample]
    scale = before / after
    wide = max(scale, 1.0)
    rows: list[tuple[int, list[float]]] = []
    for at in range(after):
        centre, far = scale * (at + 0.5), reach * wide
        first = max(int(centre - far + 0.5), 0)
        size = min(int(centre + far + 0.5), before) - first
        row = [curve((place + first - centre + 0.5) * (1 / wide)) for place in range(size)]
        total = sum(row)
        rows.append((first, [weight / total for weight in row]))
    bits = _fraction_bits(max(max(row) for _, row in rows))
    count = max(len(row) for _, row in rows)
    weights, places = np.zeros((count, after), np.int32), np.zeros((count, after), np.intp)
    for at, (first, row) in enumerate(rows):
        for tap, weight in enumerate(row):
            weights[tap, at] = int(weight * (1 << bits) + math.copysign(0.5, weight))
            places[tap, at] = first + tap
    return _Taps(places, weights, bits)


def _fraction_bits(largest: float) -> int:
    """As many as leave the largest weight in 16 bits, sign included."""
    bits = 0
    while bits < 21 and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    return bits


def _triangle(at: float) -> float:
    return max(1.0 - abs(at), 0.0)


def _cubic(at: float) -> float:
    at, sharp = abs(at), _SHARPNESS
    if at < 1.0:
        return ((sharp + 2.0) * at - (sharp + 3.0)) * at * at + 1.0
    if at < 2.0:
        return (((at - 5.0) * at + 8.0) * at - 4.0) * sharp
    return 0.0


def _sinc(at: float) -> float:
    return 1.0 if at == 0.0 else math.sin(at * math.pi) / (at * math.pi)


def _lanczos(at: float) -> float:
    return _sinc(at) * _sinc(at / 3.0) if -3.0 <= at < 3.0 else 0.0


TORCH_FILTERS: Final[dict[int, tuple[Callable[[float], float], float]]] = {
    1: (_lanczos, 3.0),
    2: (_triangle, 1.0),
    3: (_cubic, 2.0),
}
"""By Pillow's number: the curve, and how far it reaches in pixels of the smaller picture."""
