"""Arrays to what files hold: the stored dtype, with its range kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.errors import EncodeError
from vcache_cli.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["beside", "stored", "together"]

_TOO_LARGE: Final[Mapping[str, float]] = {"F16": 65520.0, "BF16": float.fromhex("0x1.ffp127")}
"""What rounds to infinity, or lies beyond it."""


def stored(name: str, array: NDArray[Any], dtype: str | None) -> Tensor:
    """`array` as a tensor; float32 in `dtype`, where one is given.

    Raises:
        EncodeError: kind ``not_finite``: a value that is infinite in that dtype.
    """
    narrow = dtype if array.dtype.name == "float32" else None
    _check_range(name, array, narrow)
    return Tensor.from_numpy(array, narrow)


def together(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The arrays of a request's pictures, one after the other on the first axis.

    Raises:
        EncodeError: kind ``mixed_shapes``: they differ beyond that axis.
    """
    import numpy as np

    shapes = {array.shape[1:] for array in arrays}
    if len(shapes) > 1:
        raise EncodeError(
            f"pictures of one request have features of {sorted(shapes)}", kind="mixed_shapes"
        )
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def beside(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Arrays of the same rows, joined on the last axis."""
    import numpy as np

    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=-1)


def _check_range(name: str, array: NDArray[Any], dtype: str | None) -> None:
    limit = _TOO_LARGE.get(dtype or "")
    if limit is None or not array.size:
        return
    largest = max(float(array.max()), -float(array.min()))
    if largest >= limit:
        raise EncodeError(
            f"`{name}` reaches {largest:g}, too large for {dtype}",
            kind="not_finite",
            hint="store another --dtype, and check the weights",
        )
