"""Softmax attention in numpy, in blocks whose scores stay in a core's cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Final

    from numpy.typing import NDArray

    Array = NDArray[np.float32]

__all__ = ["attend"]

_SCORES_ELEMENTS: Final = 262_144
"""Attention scores of one head that are held at once, 1 MiB."""


def attend(query: Array, key: Array, value: Array, *, num_heads: int, out: Array) -> None:
    """Write to `out` (N, Q, D) what `query` finds; scales `query` in place.

    Args:
        query: (N, Q, D), or (1, Q, D) for all items alike.
        key: (N, T, D).
        value: (N, T, D).
        num_heads: divides D.
        out: may be a view.
    """
    count, num_tokens, channels = key.shape
    num_rows, width = query.shape[1], channels // num_heads
    query *= np.float32(width**-0.5)
    items = max(1, _SCORES_ELEMENTS // (num_rows * num_tokens))
    step = max(1, _SCORES_ELEMENTS // num_tokens)
    for first in range(0, count, items):
        some = slice(first, first + items)
        asking = query[some] if len(query) > 1 else query
        for begin in range(0, channels, width):
            head = slice(begin, begin + width)
            for row in range(0, num_rows, step):
                rows = slice(row, row + step)
                part = asking[:, rows, head], key[some, :, head], value[some, :, head]
                out[some, rows, head] = _weighted(*part)


def _weighted(query: Array, key: Array, value: Array) -> Array:
    """Softmax of the scores of scaled `query`, times `value`."""
    scores: Array = query @ key.swapaxes(-1, -2)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    out: Array = scores @ value
    out /= scores.sum(axis=-1, keepdims=True)
    return out
