"""The small set of operations that vision towers are written against.

A tower is written once; each backend brings these operations over its own arrays. Items of one
size have a batch axis first: (N, T, D) for tokens. Items of several sizes are *packed*, one
after the other: (T, D). An operand called *consumed* belongs to the operation from then on: a
backend may write its result there, and the tower does not use it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Final

    import numpy as np
    from numpy.typing import NDArray

    from vcache_cli.tensor import Tensor

__all__ = ["ACTIVATIONS", "Array", "Ops"]

Array: TypeAlias = Any
"""A backend's own array; towers only hand it on."""

ACTIVATIONS: Final = ("gelu", "gelu_tanh", "quick_gelu", "silu")
"""`gelu` is x * normal_cdf(x), `gelu_tanh` its tanh form, `quick_gelu` is x * sigmoid(1.702 x),
`silu` is x * sigmoid(x)."""


class Ops(Protocol):
    """Operations of one backend in one compute dtype."""

    @property
    def concurrency(self) -> int:
        """Threads that may compute at once. Where it is 1, all calls come from one thread."""
        ...

    @property
    def pass_tokens(self) -> int | None:
        """Tokens that are worth computing at once; None where a whole batch is."""
        ...

    @property
    def device(self) -> Mapping[str, str]:
        """``backend``, ``device`` and ``dtype``; told without computing anything."""
        ...

    @property
    def versions(self) -> Mapping[str, str]:
        """Of the libraries that compute."""
        ...

    def session(self) -> AbstractContextManager[None]:
        """What a thread is inside of while it computes."""
        ...

    def load(self, tensor: Tensor) -> Array:
        """A weight in the compute dtype; read only."""
        ...

    def stack(self, items: Sequence[NDArray[np.float32]]) -> Array:
        """Items of one shape as a batch, in the compute dtype."""
        ...

    def unstack(self, batch: Array) -> list[NDArray[np.float32]]:
        """The items of a batch as arrays of their own, computed by then."""
        ...

    def pack(self, items: Sequence[NDArray[Any]]) -> Array:
        """Items joined along their first axis, in the compute dtype."""
        ...

    def split(self, packed: Array, counts: Sequence[int]) -> list[NDArray[np.float32]]:
        """The next `counts[i]` rows for each item, as arrays of their own, computed by then."""
        ...

    def constant(self, values: NDArray[Any]) -> Array:
        """Numbers that the tower worked out itself: float32 stays float32 whatever the dtype."""
        ...

    def patches(self, pixels: Array, *, side: int) -> Array:
        """(N, C, H, W) as (N, H // side * (W // side), C * side * side), row by row.

        Pixels beyond the last whole patch are left out, as a convolution without padding does.
        """
        ...

    def linear(self, x: Array, weight: Array, bias: Array | None) -> Array:
        """``x @ weight.T + bias`` over the last axis; `weight` is flattened to (out, in)."""
        ...

    def layer_norm(self, x: Array, weight: Array, bias: Array, *, epsilon: float) -> Array:
        """Zero mean and unit variance over the last axis, then scaled and shifted."""
        ...

    def rms_norm(self, x: Array, weight: Array, *, epsilon: float, shift: float = 0.0) -> Array:
        """Unit mean square over the last axis, then scaled by ``weight + shift``."""
        ...

    def activation(self, x: Array, *, name: str) -> Array:
        """One of `ACTIVATIONS`, element by element; `x` is consumed."""
        ...

    def attention(self, query: Array, key: Array, value: Array, *, num_heads: int) -> Array:
        """Softmax attention, scaled by the root of the head's width; consumes `query`.

        Args:
            query: (N, Q, D), or (1, Q, D) for all items alike.
            key: (N, T, D).
            value: (N, T, D).
            num_heads: divides D; each head takes D / num_heads neighbouring channels.
        """
        ...

    def segment_attention(
        self, query: Array, key: Array, value: Array, *, num_heads: int, bounds: Sequence[int]
    ) -> Array:
        """Attention inside each segment of packed tokens; consumes `query`.

        Args:
            query: (T, D), as `key` and `value`.
            key: see `query`.
            value: see `query`.
            num_heads: as for `attention`.
            bounds: 0, then where each segment ends; the last is T.
        """
        ...

    def rotate(self, x: Array, cos: Array, sin: Array, *, num_heads: int) -> Array:
        """Rotary positions, in float32: the halves (a, b) of each head turn by an angle.

        They become (a * cos - b * sin, b * cos + a * sin). `x` is consumed.

        Args:
            x: (T, D).
            cos: (T, D / num_heads / 2) float32, a `constant`.
            sin: as `cos`.
            num_heads: divides D.
        """
        ...

    def add(self, x: Array, y: Array) -> Array:
        """``x + y``, where `y` may lack the batch axis; `x` is consumed."""
        ...

    def mul(self, x: Array, y: Array) -> Array:
        """``x * y``, where `y` may be broadcast; in the dtype of `x`, which is consumed."""
        ...

    def prepend(self, token: Array, x: Array) -> Array:
        """Tokens (N, T, D) with one more, (D,), before the first."""
        ...

    def token(self, x: Array, *, index: int) -> Array:
        """(N, D): one token of each item, not a view of `x`."""
        ...

    def rows(self, x: Array, *, begin: int, end: int) -> Array:
        """Rows of a weight, as a view."""
        ...

    def tokens(self, x: Array, *, begin: int, end: int) -> Array:
        """Tokens `begin` to `end` of each item of (N, T, D); not a view of `x`."""
        ...

    def join(self, parts: Sequence[Array]) -> Array:
        """The channels of each part beside those of the next: (N, T, D1), ... to (N, T, D1 + ...).

        A single part is given back as it is.
        """
        ...

    def take(self, x: Array, index: NDArray[np.int64]) -> Array:
        """Entries `index` of the first axis: permutes packed tokens, looks positions up."""
        ...

    def reshape(self, x: Array, shape: tuple[int, ...]) -> Array:
        """The same numbers in row-major order; one side may be -1."""
        ...

    def pool_grid(self, x: Array, *, height: int, width: int, side: int) -> Array:
        """(N, height * width, D) to means of side x side blocks, row by row."""
        ...
