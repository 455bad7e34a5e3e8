"""Softmax attention in numpy, in blocks whose scores stay in a core's cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vcache_cli.encode.numpy_buffers import empty

if TYPE_CHECKING:
    from typing import Final

    from numpy.typing import NDArray

    Array = NDArray[np.float32]

__all__ = ["attend"]

_SCORES_ELEMENTS: Final = 262_144
"""Attention scores of one head that are held at once, 1 MiB."""


def attend(query: Array, key: Array, value: Array, *, num_heads: int, out: Array) -> None:
    """Write to `out` (N, Q, D) what `query` finds.

    Args:
        query: (N, Q, D), or (1, Q, D) for all items alike.
        key: (N, T, D).
        value: (N, T, D).
        num_heads: divides D.
        out: may be a view.
    """
    count, num_tokens, channels = key.shape
    num_rows, width = query.shape[1], channels // num_heads
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
                _weighted(*part, out=out[some, rows, head])


def _weighted(query: Array, key: Array, value: Array, *, out: Array) -> None:
    """Softmax of the scores of `query`, times `value`."""
    scaled = query * np.float32(query.shape[-1] ** -0.5)  # a copy in order is quicker to multiply
    scores = empty((len(key), query.shape[1], key.shape[1]))
    np.matmul(scaled, key.swapaxes(-1, -2), out=scores)
    scores -= np.maximum.reduce(scores, axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    shares = np.divide(np.float32(1), np.einsum("nqt->nq", scores))
    np.multiply(scores @ value, shares[..., None], out=out)
