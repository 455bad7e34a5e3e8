"""Operations in torch: CUDA, and the bfloat16 units of a CPU. The extra ``torch``.

torch takes seconds to import, so it is imported when it is first computed with. On a CPU each
thread that encodes has one torch thread.
"""

from __future__ import annotations

import importlib.util
import platform
from contextlib import contextmanager, nullcontext
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from vcache_cli.encode.exhaustion import as_memory_error
from vcache_cli.encode.processor import has_bfloat16_units, has_nvidia, usable_processors
from vcache_cli.encode.segments import runs
from vcache_cli.encode.torch_threads import one_thread
from vcache_cli.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Final

    import numpy as np
    from numpy.typing import NDArray

    from vcache_cli.encode.ops import Array
    from vcache_cli.tensor import Tensor

__all__ = ["BACKEND", "TorchBackend", "TorchOps"]

_DTYPES: Final = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
_PASS_TOKENS_CPU: Final = 2_048
"""Products of more rows are no faster."""
_PASS_TOKENS_GPU: Final = 32_768
"""Activations of a large tower at that length take a few GiB."""


class TorchOps:
    """`Ops` over tensors of torch, on the first GPU of CUDA or on the CPU."""

    def __init__(self, compute_dtype: str) -> None:
        self._name = compute_dtype
        self._on_gpu = has_nvidia() and _has_cuda()
        self._device = "cuda" if self._on_gpu else "cpu"

    @cached_property
    def _torch(self) -> Any:  # noqa: ANN401  torch is not there for the type checker
        import torch

        return torch

    @property
    def _function(self) -> Any:  # noqa: ANN401  as above
        return self._torch.nn.functional

    @property
    def _dtype(self) -> Any:  # noqa: ANN401  as above
        return getattr(self._torch, _DTYPES[self._name])

    @property
    def concurrency(self) -> int:
        """One owner of a GPU, one thread for each processor of a CPU."""
        return 1 if self._on_gpu else usable_processors()

    @property
    def pass_tokens(self) -> int:
        """Enough to keep the units busy."""
        return _PASS_TOKENS_GPU if self._on_gpu else _PASS_TOKENS_CPU

    @property
    def device(self) -> Mapping[str, str]:
        """``cuda`` or ``cpu``, and what of it."""
        name = platform.machine()
        if self._on_gpu:
            name = self._torch.cuda.get_device_name(self._device)
        return {"backend": "torch", "device": f"{self._device} {name}", "dtype": self._name}

    @property
    def versions(self) -> Mapping[str, str]:
        """Torch's own."""
        return {"torch": version("torch")}

    @contextmanager
    def session(self) -> Iterator[None]:
        """No gradients; on a CPU one thread of torch for the calling thread."""
        threads = nullcontext() if self._on_gpu else one_thread()
        with self._torch.inference_mode(), as_memory_error(), threads:
            yield

    def load(self, tensor: Tensor) -> Array:
        """Narrowed or widened to the compute dtype; one copy."""
        import numpy as np

        raw = self._torch.empty(tensor.size_bytes, dtype=self._torch.uint8)
        raw.numpy()[:] = np.frombuffer(tensor.data, np.uint8)  # torch takes no read-only memory
        typed = raw.view(getattr(self._torch, _DTYPES[tensor.dtype])).reshape(tensor.shape)
        return typed.to(self._device, self._dtype)

    def stack(self, items: Sequence[NDArray[np.float32]]) -> Array:
        """One array on the device."""
        import numpy as np

        return self._moved(np.stack(items))

    def unstack(self, batch: Array) -> list[NDArray[np.float32]]:
        """Computes, then copies to numpy."""
        return [item.copy() for item in batch.float().cpu().numpy()]

    def pack(self, items: Sequence[NDArray[Any]]) -> Array:
        """One array on the device."""
        import numpy as np

        return self._moved(np.concatenate(items))

    def split(self, packed: Array, counts: Sequence[int]) -> list[NDArray[np.float32]]:
        """Computes, then copies to numpy."""
        parts = packed.float().cpu().split(list(counts))
        return [part.numpy().copy() for part in parts]

    def constant(self, values: NDArray[Any]) -> Array:
        """In its own dtype."""
        return self._torch.from_numpy(values.copy()).to(self._device)

    def _moved(self, array: NDArray[Any]) -> Array:
        return self._torch.from_numpy(array).to(self._device, self._dtype)

    def patches(self, pixels: Array, *, side: int) -> Array:
        """A reshape and a transpose, into the order of the convolution's weights."""
        count, channels, height, width = pixels.shape
        rows, columns = height // side, width // side
        whole = pixels[:, :, : rows * side, : columns * side]
        cut = whole.reshape(count, channels, rows, side, columns, side)
        order = cut.permute(0, 2, 4, 1, 3, 5)
        return order.reshape(count, rows * columns, channels * side * side)

    def linear(self, x: Array, weight: Array, bias: Array | None) -> Array:
        """Torch's own."""
        return self._function.linear(x, weight.reshape(weight.shape[0], -1), bias)

    def layer_norm(self, x: Array, weight: Array, bias: Array, *, epsilon: float) -> Array:
        """Torch's own."""
        return self._function.layer_norm(x, weight.shape, weight, bias, epsilon)

    def rms_norm(self, x: Array, weight: Array, *, epsilon: float, shift: float = 0.0) -> Array:
        """Through float32, back to the compute dtype."""
        wide = x.float()
        scale = self._torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
        return (wide * scale * (weight.float() + shift)).to(x.dtype)

    def activation(self, x: Array, *, name: str) -> Array:
        """Torch's own."""
        if name == "silu":
            return self._function.silu(x, inplace=True)
        if name == "quick_gelu":
            return x * self._torch.sigmoid(1.702 * x)
        return self._function.gelu(x, approximate="tanh" if name == "gelu_tanh" else "none")

    def attention(self, query: Array, key: Array, value: Array, *, num_heads: int) -> Array:
        """Torch's own, over (N, heads, tokens, width)."""
        count, _, channels = key.shape
        rows = query.shape[1]
        parts = (
            x.reshape(count, -1, num_heads, channels // num_heads).transpose(1, 2)
            for x in (query.expand(count, -1, -1), key, value)
        )
        out = self._function.scaled_dot_product_attention(*parts)
        return out.transpose(1, 2).reshape(count, rows, channels)

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
        return done[0] if len(done) == 1 else self._torch.cat(done)

    def rotate(self, x: Array, cos: Array, sin: Array, *, num_heads: int) -> Array:
        """Through float32, back to the compute dtype."""
        first, second = x.float().reshape(x.shape[0], num_heads, 2, -1).unbind(2)
        cos, sin = cos[:, None], sin[:, None]
        turned = (first * cos - second * sin, second * cos + first * sin)
        return self._torch.stack(turned, dim=2).reshape(x.shape).to(x.dtype)

    def add(self, x: Array, y: Array) -> Array:
        """In place."""
        return x.add_(y)

    def mul(self, x: Array, y: Array) -> Array:
        """In place."""
        return x.mul_(y)

    def prepend(self, token: Array, x: Array) -> Array:
        """A new array."""
        return self._torch.cat([token.expand(x.shape[0], 1, -1), x], dim=1)

    def token(self, x: Array, *, index: int) -> Array:
        """A copy."""
        return x[:, index].clone()

    def rows(self, x: Array, *, begin: int, end: int) -> Array:
        """A view."""
        return x[begin:end]

    def tokens(self, x: Array, *, begin: int, end: int) -> Array:
        """A copy."""
        return x[:, begin:end].clone()

    def join(self, parts: Sequence[Array]) -> Array:
        """A copy, where there is more than one."""
        return parts[0] if len(parts) == 1 else self._torch.cat(list(parts), dim=-1)

    def take(self, x: Array, index: NDArray[np.int64]) -> Array:
        """A copy."""
        return x[self._torch.from_numpy(index.copy()).to(self._device)]

    def reshape(self, x: Array, shape: tuple[int, ...]) -> Array:
        """A view, where the numbers lie in order."""
        return x.reshape(shape)

    def pool_grid(self, x: Array, *, height: int, width: int, side: int) -> Array:
        """A mean over two axes."""
        count, _, channels = x.shape
        rows, columns = height // side, width // side
        blocks = x.reshape(count, rows, side, columns, side, channels)
        return blocks.mean(dim=(2, 4)).reshape(count, rows * columns, channels)


class TorchBackend:
    """torch, where it is installed."""

    name = "torch"

    def unavailable(self) -> str | None:
        """Names the extra where torch is missing; does not import it."""
        if importlib.util.find_spec("torch") is None:
            return "torch is not installed; install the extra `vcache-cli[torch]`"
        return None

    def preference(self) -> int:
        """First on CUDA and where the processor has bfloat16 units, else after numpy."""
        if has_nvidia() and _has_cuda():
            return 30
        return 15 if has_bfloat16_units() else 5

    def merit(self) -> str:
        """What its speed hangs on."""
        if has_nvidia() and _has_cuda():
            return "computes on the GPU"
        if has_bfloat16_units():
            return "uses the bfloat16 units of this processor"
        return "no GPU for it and no bfloat16 units here; slower than numpy"

    def default_dtype(self) -> str:
        """bfloat16, where there are units for it."""
        return "BF16" if has_bfloat16_units() or (has_nvidia() and _has_cuda()) else "F32"

    def ops(self, compute_dtype: str) -> Any:  # noqa: ANN401  as the socket says
        """F32, BF16 or F16.

        Raises:
            ModelError: another dtype.
        """
        if compute_dtype not in _DTYPES:
            raise ModelError(
                f"backend `torch`: expected to compute in one of {', '.join(_DTYPES)}, "
                f"got {compute_dtype}"
            )
        return TorchOps(compute_dtype)


def _has_cuda() -> bool:
    """Whether torch computes on a GPU here; imports torch."""
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


BACKEND: Final = TorchBackend()
