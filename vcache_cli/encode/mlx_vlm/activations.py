"""GELU of a model of mlx-vlm on a CPU, by numpy.

MLX computes tanh, erf and powers there one number at a time: of a SigLIP tower in float32 that is
more than half. numpy has the same formulas, many numbers at a time.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from vcache_cli.encode.mlx_vlm.loading import vision_parts
from vcache_cli.encode.numpy_ops import NumpyOps

if TYPE_CHECKING:
    from typing import Final

__all__ = ["quicken"]

_NAMES: Final = {
    "fast": "quick_gelu",
    "none": "gelu",
    "precise": "gelu_tanh",
    "tanh": "gelu_tanh",
}
"""What `mlx.nn.GELU` calls its formulas, to what `ops.ACTIVATIONS` calls them."""


def quicken(model: Any) -> None:  # noqa: ANN401  MLX ships no usable types
    """Let numpy compute each `mlx.nn.GELU` of the vision part; float32 only, to 1e-6."""
    from mlx.utils import tree_unflatten

    nn: Any = import_module("mlx.nn")
    for part in vision_parts(model).values():
        if not isinstance(part, nn.Module):
            continue
        found = [
            (name, _kind()(each._approx))  # noqa: SLF001  where MLX itself looks
            for name, each in part.named_modules()
            if name and type(each) is nn.GELU and each._approx in _NAMES  # noqa: SLF001  as above
        ]
        part.update_modules(tree_unflatten(found))


@cache
def _kind() -> Any:  # noqa: ANN401  as above
    nn: Any = import_module("mlx.nn")
    return type("NumpyGelu", (nn.GELU,), {"__call__": _activated})


def _activated(gelu: Any, x: Any) -> Any:  # noqa: ANN401  as above
    """What `gelu` makes of `x`, computed when this returns."""
    import mlx.core as mx

    if x.dtype == mx.float32:
        try:
            numbers = np.array(x)
            return mx.array(NumpyOps().activation(numbers, name=_NAMES[gelu._approx]))  # noqa: SLF001
        except (RuntimeError, ValueError):  # inside a function that MLX compiles
            pass
    return super(type(gelu), gelu).__call__(x)
