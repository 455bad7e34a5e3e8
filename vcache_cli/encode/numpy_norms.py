"""Norms in numpy, in blocks of rows that stay in a core's cache from step to step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vcache_cli.encode.numpy_buffers import empty

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from numpy.typing import NDArray

    Array = NDArray[np.float32]

__all__ = ["layer_norm", "rms_norm"]

_BLOCK_ELEMENTS: Final = 65_536
"""256 KiB."""


def layer_norm(x: Array, weight: Array, bias: Array, *, epsilon: float) -> Array:
    """Two passes: the variance is that of the centred values."""
    result = empty(x.shape)
    for rows, out in _blocks(x, result):
        mean = np.add.reduce(rows, axis=-1, keepdims=True)
        mean /= np.float32(x.shape[-1])
        np.subtract(rows, mean, out=out)
        np.multiply(out, _scale(out, epsilon), out=out)
        np.multiply(out, weight, out=out)
        np.add(out, bias, out=out)
    return result


def rms_norm(x: Array, weight: Array, *, epsilon: float) -> Array:
    """One pass for the mean square, one for the result."""
    result = empty(x.shape)
    for rows, out in _blocks(x, result):
        np.multiply(rows, _scale(rows, epsilon), out=out)
        np.multiply(out, weight, out=out)
    return result


def _blocks(x: Array, out: Array) -> Iterator[tuple[Array, Array]]:
    """Some rows of both at a time."""
    width = x.shape[-1]
    step = max(1, _BLOCK_ELEMENTS // width)
    given, made = x.reshape(-1, width), out.reshape(-1, width)
    for begin in range(0, len(given), step):
        yield given[begin : begin + step], made[begin : begin + step]


def _scale(rows: Array, epsilon: float) -> Array:
    """What brings the mean square of each row to one: (rows, 1)."""
    square: Array = np.einsum("ij,ij->i", rows, rows)
    square /= np.float32(rows.shape[-1])
    square += np.float32(epsilon)
    np.sqrt(square, out=square)
    return np.divide(np.float32(1), square, out=square)[:, None]
