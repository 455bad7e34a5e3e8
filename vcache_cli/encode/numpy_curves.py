"""Activation functions in numpy: what x is multiplied with."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Final

    from numpy.typing import NDArray

    Array = NDArray[np.float32]

__all__ = ["CURVES"]


def _half_tanh(inner: Array) -> Array:
    """0.5 + 0.5 * tanh(`inner`), in place: the logistic curve without overflow."""
    np.tanh(inner, out=inner)
    inner *= np.float32(0.5)
    inner += np.float32(0.5)
    return inner


def _gelu_tanh(x: Array) -> Array:
    inner: Array = x * x
    inner *= np.float32(0.044715 * math.sqrt(2 / math.pi))
    inner += np.float32(math.sqrt(2 / math.pi))
    inner *= x
    return _half_tanh(inner)


def _quick_gelu(x: Array) -> Array:
    return _half_tanh(x * np.float32(1.702 / 2))


def _silu(x: Array) -> Array:
    return _half_tanh(x * np.float32(0.5))


def _gelu(x: Array) -> Array:
    """The normal distribution function by formula 7.1.26 of Abramowitz and Stegun.

    numpy has no error function; this one is within 1.5e-7 of it, half the last bit of a float32.
    """
    size = np.abs(x) * np.float32(math.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * size)
    tail = np.full_like(t, 1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail *= t
        tail += np.float32(coefficient)
    tail *= t
    tail *= np.exp(-size * size)
    tail *= np.float32(0.5)
    return np.where(x < 0, tail, 1 - tail)


CURVES: Final[Mapping[str, Callable[[Array], Array]]] = {
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "quick_gelu": _quick_gelu,
    "silu": _silu,
}
"""By the names of `ops.ACTIVATIONS`."""
