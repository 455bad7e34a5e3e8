"""The backend that computes in numpy. numpy itself is loaded when something is computed."""

from __future__ import annotations

import platform
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vcache_cli.encode.processor import usable_processors
from vcache_cli.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from vcache_cli.encode.numpy_ops import NumpyOps

__all__ = ["BACKEND", "NumpyBackend", "NumpyTraits"]


class NumpyTraits:
    """What is known of `NumpyOps` before numpy is loaded."""

    pass_tokens = 768  # products of fewer rows are slower, of more rows no faster

    @property
    def concurrency(self) -> int:
        """Processors that this process may use."""
        return usable_processors()

    @property
    def device(self) -> Mapping[str, str]:
        """The CPU; float32 always."""
        return {"backend": "numpy", "device": f"cpu {platform.machine()}", "dtype": "F32"}


class _LateOps(NumpyTraits):
    """`NumpyOps`, made when the first of its operations is called: most runs of many call none."""

    @cached_property
    def _ops(self) -> NumpyOps:
        from vcache_cli.encode.numpy_ops import NumpyOps

        return NumpyOps()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  each operation has its own type
        return getattr(self._ops, name)


class NumpyBackend:
    """numpy on the CPU: always there, and faster than stock MLX on a CPU by far."""

    name = "numpy"

    def unavailable(self) -> str | None:
        """None: numpy is a base dependency."""
        return None

    def preference(self) -> int:
        """Above any other backend on a CPU, below every accelerator."""
        return 10

    def merit(self) -> str:
        """The same on every machine."""
        return "runs on any CPU, a thread for each core"

    def default_dtype(self) -> str:
        """float32, the only one."""
        return "F32"

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
        return _LateOps()


BACKEND: Final = NumpyBackend()
