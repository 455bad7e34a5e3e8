"""Operations in numpy, float32: the backend that runs on any CPU.

A few items pass at a time, on one BLAS thread: several threads encode at once, each on its own
items, and what is computed does not depend on how many processors there are.
"""

from __future__ import annotations

import math
import os
import platform
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from vcache_cli.encode.blas import blas_name, single_threaded
from vcache_cli.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Final

    from numpy.typing import NDArray

    from vcache_cli.tensor import Tensor

    Array = NDArray[np.float32]

__all__ = ["BACKEND", "NumpyBackend", "NumpyOps"]

_BLOCK_ELEMENTS: Final = 65_536
"""Elements that a chain of element-wise steps takes at once: 256 KiB, inside a core's cache."""

_SCORES_ELEMENTS: Final = 262_144
"""Attention scores of one head that are held at once, 1 MiB."""


class NumpyOps:
    """`Ops` over float32 numpy arrays. Any number of threads."""

    pass_tokens = 768  # products of fewer rows are slower, of more rows no faster

    @property
    def concurrency(self) -> int:
        """Processors that this process may use."""
        return usable_processors()

    @property
    def device(self) -> Mapping[str, str]:
        """Names the BLAS too: its kernels decide the last bits."""
        return {
            "backend": "numpy",
            "blas": blas_name(),
            "device": f"cpu {platform.machine()}",
            "dtype": "F32",
            "numpy": np.__version__,
        }

    @contextmanager
    def session(self) -> Iterator[None]:
        """One BLAS thread for each thread inside; what overflows is found by its results."""
        with single_threaded(), np.errstate(all="ignore"):
            yield

    def load(self, tensor: Tensor) -> Array:
        """float32 weights are used where they lie, others are widened."""
        return np.asarray(tensor.numpy(), dtype=np.float32)

    def stack(self, items: Sequence[Array]) -> Array:
        """One item becomes a batch without a copy."""
        if len(items) == 1:
            return np.asarray(items[0], dtype=np.float32)[None]
        return np.stack(items).astype(np.float32, copy=False)

    def unstack(self, batch: Array) -> list[Array]:
        """Views where there is one item, copies where a view would keep the others alive."""
        return [batch[0]] if len(batch) == 1 else [item.copy() for item in batch]

    def patches(self, pixels: Array, *, side: int) -> Array:
        """One copy, into the order of the convolution's weights."""
        count, channels, height, width = pixels.shape
        rows, columns = height // side, width // side
        whole = pixels[:, :, : rows * side, : columns * side]
        cut = whole.reshape(count, channels, rows, side, columns, side)
        order = cut.transpose(0, 2, 4, 1, 3, 5)
        return order.reshape(count, rows * columns, channels * side * side)

    def linear(self, x: Array, weight: Array, bias: Array | None) -> Array:
        """A single product over all tokens of the batch."""
        flat = weight.reshape(weight.shape[0], -1)
        product = x.reshape(-1, x.shape[-1]) @ flat.T
        if bias is not None:
            product += bias
        return product.reshape(*x.shape[:-1], flat.shape[0])

    def layer_norm(self, x: Array, weight: Array, bias: Array, *, epsilon: float) -> Array:
        """Two passes: the variance is that of the centred values."""
        centred: Array = x - x.mean(axis=-1, keepdims=True)
        variance = np.einsum("...i,...i->...", centred, centred) / np.float32(x.shape[-1])
        centred *= (1 / np.sqrt(variance + np.float32(epsilon)))[..., None]
        centred *= weight
        centred += bias
        return centred

    def activation(self, x: Array, *, name: str) -> Array:
        """In place, block by block."""
        flat = x.reshape(-1)
        curve = _CURVES[name]
        for begin in range(0, flat.size, _BLOCK_ELEMENTS):
            block = flat[begin : begin + _BLOCK_ELEMENTS]
            block *= curve(block)
        return x

    def attention(self, query: Array, key: Array, value: Array, *, num_heads: int) -> Array:
        """Head by head and in blocks of rows, so that the scores stay in the cache."""
        count, num_rows, channels = key.shape[0], query.shape[1], query.shape[2]
        width = channels // num_heads
        step = max(1, _SCORES_ELEMENTS // key.shape[1])
        out = np.empty((count, num_rows, channels), np.float32)
        scaled = query
        scaled *= np.float32(width**-0.5)
        for item in range(count):
            asking = scaled[item if len(scaled) > 1 else 0]
            for begin in range(0, channels, width):
                head = slice(begin, begin + width)
                for row in range(0, num_rows, step):
                    rows = slice(row, row + step)
                    part = asking[rows, head], key[item, :, head], value[item, :, head]
                    out[item, rows, head] = _weighted(*part)
        return out

    def add(self, x: Array, y: Array) -> Array:
        """In place."""
        x += y
        return x

    def prepend(self, token: Array, x: Array) -> Array:
        """One copy."""
        first = np.broadcast_to(token, (x.shape[0], 1, x.shape[2]))
        return np.concatenate([first, x], axis=1)

    def token(self, x: Array, *, index: int) -> Array:
        """A copy."""
        return x[:, index].copy()

    def rows(self, x: Array, *, begin: int, end: int) -> Array:
        """A view."""
        return x[begin:end]


def _weighted(query: Array, key: Array, value: Array) -> Array:
    """Softmax of the scores of scaled `query`, times `value`."""
    scores: Array = query @ key.T
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    out: Array = scores @ value
    out /= scores.sum(axis=-1, keepdims=True)
    return out


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


_CURVES: Final[Mapping[str, Callable[[Array], Array]]] = {
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "quick_gelu": _quick_gelu,
}
"""What x is multiplied with."""


def usable_processors() -> int:
    """Processors that this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class NumpyBackend:
    """numpy on the CPU: always there, and faster than stock MLX on a CPU by far."""

    name = "numpy"

    def unavailable(self) -> str | None:
        """None: numpy is a base dependency."""
        return None

    def preference(self) -> int:
        """Above any other backend on a CPU, below every accelerator."""
        return 10

    def ops(self, compute_dtype: str) -> Any:  # noqa: ANN401  as the socket says
        """float32 only.

        Raises:
            ModelError: another dtype.
        """
        if compute_dtype != "F32":
            raise ModelError(
                f"backend `numpy`: expected to compute in F32, got {compute_dtype}",
                hint="compute in F32 on a CPU; `--dtype` is that of the stored tensors",
            )
        return NumpyOps()


BACKEND: Final = NumpyBackend()
