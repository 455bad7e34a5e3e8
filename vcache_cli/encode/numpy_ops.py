"""Operations in numpy, float32: those that run on any CPU.

A few items pass at a time, on one BLAS thread: several threads encode at once, each on its own
items, and what is computed does not depend on how many processors there are.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from vcache_cli.encode import numpy_norms
from vcache_cli.encode.blas import blas_name, single_threaded
from vcache_cli.encode.numpy_attention import attend
from vcache_cli.encode.numpy_backend import NumpyTraits
from vcache_cli.encode.numpy_buffers import empty
from vcache_cli.encode.numpy_curves import CURVES
from vcache_cli.encode.segments import runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Final

    from numpy.typing import NDArray

    from vcache_cli.tensor import Tensor

    Array = NDArray[np.float32]

__all__ = ["NumpyOps"]

_BLOCK_ELEMENTS: Final = 65_536
"""Elements that a chain of element-wise steps takes at once: 256 KiB, inside a core's cache."""


class NumpyOps(NumpyTraits):
    """`Ops` over float32 numpy arrays. Any number of threads."""

    @property
    def versions(self) -> Mapping[str, str]:
        """Names the BLAS too: its kernels decide the last bits."""
        return {"blas": blas_name(), "numpy": np.__version__}

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
        """Copies: a view would keep memory that is to be used again."""
        return [item.copy() for item in batch]

    def pack(self, items: Sequence[NDArray[Any]]) -> Array:
        """One item is taken as it is."""
        if len(items) == 1:
            return np.asarray(items[0], dtype=np.float32)
        return np.concatenate(items).astype(np.float32, copy=False)

    def split(self, packed: Array, counts: Sequence[int]) -> list[Array]:
        """Copies, as for `unstack`."""
        ends = np.cumsum(counts)
        return [packed[end - n : end].copy() for n, end in zip(counts, ends, strict=True)]

    def constant(self, values: NDArray[Any]) -> Array:
        """As it is."""
        return values

    def patches(self, pixels: Array, *, side: int) -> Array:
        """One copy, into the order of the convolution's weights."""
        count, channels, height, width = pixels.shape
        rows, columns = height // side, width // side
        whole = pixels[:, :, : rows * side, : columns * side]
        cut = whole.reshape(count, channels, rows, side, columns, side)
        order = cut.transpose(0, 2, 4, 1, 3, 5)
        return order.reshape(count, rows * columns, channels * side * side)

    def linear(self, x: Array, weight: Array, bias: Array | None) -> Array:
        """A single product over all tokens of the batch; each row as it would be among others."""
        flat = weight.reshape(weight.shape[0], -1)
        rows = x.reshape(-1, x.shape[-1])
        # BLAS has other code for one row, which rounds in other places.
        safe = np.repeat(rows, 2, axis=0) if len(rows) == 1 else rows
        product = np.matmul(safe, flat.T, out=empty((len(safe), len(flat))))[: len(rows)]
        if bias is not None:
            product += bias
        return product.reshape(*x.shape[:-1], flat.shape[0])

    def layer_norm(self, x: Array, weight: Array, bias: Array, *, epsilon: float) -> Array:
        """Block by block."""
        return numpy_norms.layer_norm(x, weight, bias, epsilon=epsilon)

    def rms_norm(self, x: Array, weight: Array, *, epsilon: float, shift: float = 0.0) -> Array:
        """Block by block."""
        return numpy_norms.rms_norm(x, weight + np.float32(shift), epsilon=epsilon)

    def activation(self, x: Array, *, name: str) -> Array:
        """In place, block by block."""
        flat = x.reshape(-1)
        curve = CURVES[name]
        for begin in range(0, flat.size, _BLOCK_ELEMENTS):
            block = flat[begin : begin + _BLOCK_ELEMENTS]
            block *= curve(block)
        return x

    def attention(self, query: Array, key: Array, value: Array, *, num_heads: int) -> Array:
        """Head by head, so that the scores stay in the cache."""
        out = empty((key.shape[0], query.shape[1], query.shape[2]))
        attend(query, key, value, num_heads=num_heads, out=out)
        return out

    def segment_attention(
        self, query: Array, key: Array, value: Array, *, num_heads: int, bounds: Sequence[int]
    ) -> Array:
        """Segments of one length that follow each other are one batch."""
        out = empty(query.shape)
        for begin, count, length in runs(bounds):
            part = (
                x[begin : begin + count * length].reshape(count, length, -1)
                for x in (query, key, value)
            )
            place = out[begin : begin + count * length].reshape(count, length, -1)
            attend(*part, num_heads=num_heads, out=place)
        return out

    def rotate(self, x: Array, cos: Array, sin: Array, *, num_heads: int) -> Array:
        """In place, with a copy of one half."""
        halves = x.reshape(len(x), num_heads, 2, -1)
        first, second = halves[:, :, 0], halves[:, :, 1]
        cos, sin = cos[:, None], sin[:, None]
        turned = first * cos
        turned -= second * sin
        second *= cos
        first *= sin
        second += first
        first[...] = turned
        return x

    def add(self, x: Array, y: Array) -> Array:
        """In place."""
        x += y
        return x

    def mul(self, x: Array, y: Array) -> Array:
        """In place."""
        x *= y
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

    def tokens(self, x: Array, *, begin: int, end: int) -> Array:
        """A copy."""
        return x[:, begin:end].copy()

    def join(self, parts: Sequence[Array]) -> Array:
        """One copy, where there is more than one."""
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

    def take(self, x: Array, index: NDArray[np.int64]) -> Array:
        """A copy."""
        taken: Array = x[index]
        return taken

    def reshape(self, x: Array, shape: tuple[int, ...]) -> Array:
        """A view, where the numbers lie in order."""
        return x.reshape(shape)

    def pool_grid(self, x: Array, *, height: int, width: int, side: int) -> Array:
        """Sums over two axes at once."""
        count, _, channels = x.shape
        rows, columns = height // side, width // side
        blocks = x.reshape(count, rows, side, columns, side, channels)
        means: Array = blocks.mean(axis=(2, 4))
        return means.reshape(count, rows * columns, channels)
