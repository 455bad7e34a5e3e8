"""Operations in MLX: Metal, CUDA, and the CPU where it is asked for.

Everything is lazy until `unstack`, and everything happens in one thread: MLX crashes where
arrays made in one thread are computed in another. MLX is imported when it is first used.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcache_cli.encode.blas_front import put_blas_in_front
from vcache_cli.encode.exhaustion import as_memory_error
from vcache_cli.encode.processor import has_nvidia
from vcache_cli.encode.segments import runs
from vcache_cli.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Final

    import numpy as np
    from numpy.typing import NDArray

    from vcache_cli.encode.ops import Array
    from vcache_cli.tensor import Tensor

__all__ = ["BACKEND", "MlxBackend", "MlxOps"]

_INSTALL: Final = (
    "no working MLX; on Linux install one of the extras `vcache-cli[cpu]`, `[cuda12]`, `[cuda13]`"
)
_DTYPES: Final = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


class MlxOps:
    """`Ops` over `mlx.core` arrays on MLX's default device. One thread."""

    concurrency = 1
    pass_tokens = None

    def __init__(self, compute_dtype: str) -> None:
        import mlx.core as mx

        self._mx = mx
        self._name = compute_dtype
        self._dtype = getattr(mx, _DTYPES[compute_dtype])

    @property
    def device(self) -> Mapping[str, str]:
        """``gpu`` or ``cpu`` and the chip's name."""
        kind = "gpu" if on_accelerator() else "cpu"
        chip = self._mx.device_info().get("device_name", "")
        return {
            "backend": "mlx",
            "device": f"{kind} {chip}".strip(),
            "dtype": self._name,
        }

    @property
    def versions(self) -> Mapping[str, str]:
        """MLX's own."""
        return {"mlx": version("mlx")}

    def session(self) -> AbstractContextManager[None]:
        """Nothing to hold; what MLX says of memory is understood."""
        return as_memory_error()

    def load(self, tensor: Tensor) -> Array:
        """Narrowed or widened to the compute dtype."""
        return tensor.mlx().astype(self._dtype)

    def stack(self, items: Sequence[NDArray[np.float32]]) -> Array:
        """One array on the device."""
        import numpy as np

        return self._mx.array(np.stack(items)).astype(self._dtype)

    def unstack(self, batch: Array) -> list[NDArray[np.float32]]:
        """Computes, then copies to numpy."""
        import numpy as np

        whole = batch.astype(self._mx.float32)
        self._mx.eval(whole)
        return [item.copy() for item in np.asarray(whole)]

    def pack(self, items: Sequence[NDArray[Any]]) -> Array:
        """One array on the device."""
        import numpy as np

        whole = items[0] if len(items) == 1 else np.concatenate(items)
        return self._mx.array(whole).astype(self._dtype)

    def split(self, packed: Array, counts: Sequence[int]) -> list[NDArray[np.float32]]:
        """Computes, then copies to numpy."""
        import numpy as np

        whole = packed.astype(self._mx.float32)
        self._mx.eval(whole)
        ends = np.cumsum(counts)
        array = np.asarray(whole)
        return [array[end - n : end].copy() for n, end in zip(counts, ends, strict=True)]

    def constant(self, values: NDArray[Any]) -> Array:
        """In its own dtype."""
        return self._mx.array(values)

    def patches(self, pixels: Array, *, side: int) -> Array:
        """A reshape and a transpose, into the order of the convolution's weights."""
        count, channels, height, width = pixels.shape
        rows, columns = height // side, width // side
        whole = pixels[:, :, : rows * side, : columns * side]
        cut = whole.reshape(count, channels, rows, side, columns, side)
        order = cut.transpose(0, 2, 4, 1, 3, 5)
        return order.reshape(count, rows * columns, channels * side * side)

    def linear(self, x: Array, weight: Array, bias: Array | None) -> Array:
        """With a bias, one fused step."""
        turned = weight.reshape(weight.shape[0], -1).T
        return x @ turned if bias is None else self._mx.addmm(bias, x, turned)

    def layer_norm(self, x: Array, weight: Array, bias: Array, *, epsilon: float) -> Array:
        """MLX's own."""
        return self._mx.fast.layer_norm(x, weight, bias, epsilon)

    def rms_norm(self, x: Array, weight: Array, *, epsilon: float, shift: float = 0.0) -> Array:
        """MLX's own."""
        return self._mx.fast.rms_norm(x, weight + shift if shift else weight, epsilon)

    def activation(self, x: Array, *, name: str) -> Array:
        """By its formula."""
        if name == "gelu":
            return x * 0.5 * (1 + self._mx.erf(x * math.sqrt(0.5)))
        if name == "gelu_tanh":
            inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
            return 0.5 * x * (1 + self._mx.tanh(inner))
        return x * self._mx.sigmoid(x if name == "silu" else 1.702 * x)

    def attention(self, query: Array, key: Array, value: Array, *, num_heads: int) -> Array:
        """MLX's own, over (N, heads, tokens, width)."""
        count, _, channels = key.shape
        rows, width = query.shape[1], channels // num_heads
        asking = self._mx.broadcast_to(query, (count, rows, channels))
        parts = (
            x.reshape(count, -1, num_heads, width).transpose(0, 2, 1, 3)
            for x in (asking, key, value)
        )
        attend = self._mx.fast.scaled_dot_product_attention
        out = attend(*parts, scale=width**-0.5)
        return out.transpose(0, 2, 1, 3).reshape(count, rows, channels)

    def segment_attention(
        self, query: Array, key: Array, value: Array, *, num_heads: int, bounds: Sequence[int]
    ) -> Array:
        """Segments of one length that follow each other are one batch."""
        done = []
        for begin, count, length in runs(bounds):
            part = (
                x[begin : begin + count * length].reshape(count, length, -1)
                for x in (query, key, value)
            )
            out = self.attention(*part, num_heads=num_heads)
            done.append(out.reshape(count * length, -1))
        return done[0] if len(done) == 1 else self._mx.concatenate(done)

    def rotate(self, x: Array, cos: Array, sin: Array, *, num_heads: int) -> Array:
        """Through float32, back to the compute dtype."""
        halves = x.astype(self._mx.float32).reshape(x.shape[0], num_heads, 2, -1)
        first, second = halves[:, :, 0], halves[:, :, 1]
        cos, sin = cos[:, None], sin[:, None]
        turned = self._mx.stack([first * cos - second * sin, second * cos + first * sin], axis=2)
        return turned.reshape(x.shape).astype(x.dtype)

    def add(self, x: Array, y: Array) -> Array:
        """A new array."""
        return x + y

    def mul(self, x: Array, y: Array) -> Array:
        """A new array."""
        return (x * y).astype(x.dtype)

    def prepend(self, token: Array, x: Array) -> Array:
        """A new array."""
        first = self._mx.broadcast_to(token, (x.shape[0], 1, x.shape[2]))
        return self._mx.concatenate([first, x], axis=1)

    def token(self, x: Array, *, index: int) -> Array:
        """A slice."""
        return x[:, index]

    def rows(self, x: Array, *, begin: int, end: int) -> Array:
        """A slice."""
        return x[begin:end]

    def tokens(self, x: Array, *, begin: int, end: int) -> Array:
        """A slice."""
        return x[:, begin:end]

    def join(self, parts: Sequence[Array]) -> Array:
        """A new array, where there is more than one."""
        return parts[0] if len(parts) == 1 else self._mx.concatenate(list(parts), axis=-1)

    def take(self, x: Array, index: NDArray[np.int64]) -> Array:
        """A new array."""
        return x[self._mx.array(index.copy())]

    def reshape(self, x: Array, shape: tuple[int, ...]) -> Array:
        """A view, where the numbers lie in order."""
        return x.reshape(shape)

    def pool_grid(self, x: Array, *, height: int, width: int, side: int) -> Array:
        """A mean over two axes."""
        count, _, channels = x.shape
        rows, columns = height // side, width // side
        blocks = x.reshape(count, rows, side, columns, side, channels)
        return blocks.mean(axis=(2, 4)).reshape(count, rows * columns, channels)


def on_accelerator() -> bool:
    """Whether MLX computes on a GPU here; imports MLX."""
    import mlx.core as mx

    return bool(mx.default_device().type == mx.DeviceType.gpu)


class MlxBackend:
    """MLX on its default device."""

    name = "mlx"

    def unavailable(self) -> str | None:
        """Names the extras where MLX or its library is missing; does not import it."""
        try:
            spec = importlib.util.find_spec("mlx.core")
        except ImportError:
            spec = None
        if spec is None or spec.origin is None:
            return _INSTALL
        libraries = Path(spec.origin).parent / "lib"
        return None if any(libraries.glob("libmlx.*")) else _INSTALL

    def preference(self) -> int:
        """First on an accelerator, last on a CPU, where stock MLX is a hundred times slower."""
        if sys.platform == "linux" and not has_nvidia():
            return 0  # no accelerator that MLX knows: spare the import
        try:
            return 20 if on_accelerator() else 0
        except ImportError:
            return 0

    def merit(self) -> str:
        """What its speed hangs on."""
        if self.preference():
            return "computes on the GPU"
        return "no GPU for it here; on a CPU far slower than numpy"

    def default_dtype(self) -> str:
        """float32 on a CPU, where nothing else reaches a fast product; else bfloat16."""
        return "BF16" if on_accelerator() else "F32"

    def ops(self, compute_dtype: str) -> Any:  # noqa: ANN401  as the socket says
        """F32, BF16 or F16; on a CPU the last two are slower still.

        Raises:
            ModelError: MLX or the BLAS that `VCACHE_BLAS` names cannot be loaded, or another dtype.
        """
        if compute_dtype not in _DTYPES:
            raise ModelError(
                f"backend `mlx`: expected to compute in one of {', '.join(_DTYPES)}, "
                f"got {compute_dtype}"
            )
        put_blas_in_front()
        try:
            return MlxOps(compute_dtype)
        except ImportError as error:
            raise ModelError(f"backend `mlx`: {error}", hint=_INSTALL) from error


BACKEND: Final = MlxBackend()
