"""Vision features between a server's arrays and tensors; MLX only where the server uses it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from vcache_cli.targets import OmlxLayout, omlx_grid, omlx_tensor_names
from vcache_cli.tensor import Tensor

if TYPE_CHECKING:
    from vcache_cli.entry import Entry

__all__ = ["ARRAYS_FIELD", "ArrayKind", "HeldFeatures", "array_of", "grid_of", "hold", "tensors_of"]

ArrayKind = Literal["numpy", "mlx"]
ARRAYS_FIELD: Final = "vcache.arrays"
"""Metadata that says which kind of arrays was put."""
_DTYPES: Final = OmlxLayout().limits.dtypes


@dataclass(frozen=True, slots=True, eq=False)
class HeldFeatures:
    """Features as memory keeps them."""

    arrays: tuple[Any, ...]
    """Read-only numpy arrays, or MLX arrays."""
    is_list: bool
    kind: ArrayKind
    grid: tuple[int, int, int] | None
    """Patch grid (t, h, w) before merging."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays)

    def value(self) -> Any:  # noqa: ANN401  what was put
        """The array, or a new list of them."""
        return list(self.arrays) if self.is_list else self.arrays[0]


def hold(features: object, grid: object = None) -> HeldFeatures:
    """Features as memory may keep them: numpy arrays are copied, so that nobody changes them.

    Raises:
        TypeError: neither arrays of one kind nor a list of them, or a grid that is none.
        ValueError: an empty list, or a grid that is not three integers.
    """
    is_list = isinstance(features, (list, tuple))
    arrays = tuple(features) if isinstance(features, (list, tuple)) else (features,)
    if not arrays:
        raise ValueError("`features` is an empty list; expected one array or more")
    kinds = {_kind(array) for array in arrays}
    if len(kinds) > 1:
        raise TypeError("`features` mixes numpy and MLX arrays")
    kind = kinds.pop()
    if kind == "numpy":
        arrays = tuple(_frozen(array) for array in arrays)
    return HeldFeatures(arrays, is_list, kind, grid_of(grid))


def grid_of(grid: object) -> tuple[int, int, int] | None:
    """A grid as three integers: (t, h, w), or one row of an `image_grid_thw`; None stays None.

    Raises:
        TypeError: not a sequence or an array.
        ValueError: not three integers.
    """
    if grid is None:
        return None
    if isinstance(grid, str) or not hasattr(grid, "__iter__"):
        raise TypeError(f"`grid` is (t, h, w), got {type(grid).__name__}")
    sides = np.asarray(grid)
    if sides.shape == (1, 3):
        sides = sides[0]
    if sides.shape != (3,) or sides.dtype.kind not in "iu":
        raise ValueError(f"`grid` is three integers, got {sides.dtype}{list(sides.shape)}")
    return int(sides[0]), int(sides[1]), int(sides[2])


def tensors_of(held: HeldFeatures) -> dict[str, Tensor]:
    """The tensors of a file: bytes that the calling thread takes, MLX's arrays evaluated.

    Raises:
        ValueError: a dtype that oMLX's files do not hold.
    """
    names = omlx_tensor_names(len(held.arrays) if held.is_list else None)
    take = Tensor.from_mlx if held.kind == "mlx" else Tensor.from_numpy
    try:
        tensors = {name: take(array) for name, array in zip(names, held.arrays, strict=True)}
    except ValueError as error:
        raise ValueError(f"`features`: {error}") from error
    for tensor in tensors.values():
        if tensor.dtype not in _DTYPES:
            raise ValueError(f"`features` has dtype {tensor.dtype}, which oMLX does not read")
    return tensors


def array_of(entry: Entry, arrays: ArrayKind | None) -> HeldFeatures:
    """What was put, from its file: in `arrays`, or the kind that was put where None.

    Where the file does not say, MLX arrays in a process that has loaded MLX.
    """
    tensors: Mapping[str, Tensor] = entry.tensors
    is_list = "feature" not in tensors
    kind = arrays or _recorded(entry.metadata)
    ordered = [tensors[name] for name in omlx_tensor_names(len(tensors) if is_list else None)]
    values = tuple(each.mlx() if kind == "mlx" else each.numpy() for each in ordered)
    return HeldFeatures(values, is_list, kind, omlx_grid(entry.metadata))


def _recorded(metadata: Mapping[str, str]) -> ArrayKind:
    loaded = "mlx.core" in sys.modules
    kind = metadata.get(ARRAYS_FIELD, "mlx" if loaded else "numpy")
    return "mlx" if kind == "mlx" and (loaded or _mlx_loads()) else "numpy"


def _mlx_loads() -> bool:
    from importlib import import_module

    try:
        import_module("mlx.core")
    except ImportError:
        return False
    return True


def _kind(array: object) -> ArrayKind:
    if isinstance(array, np.ndarray):
        return "numpy"
    mlx = sys.modules.get("mlx.core")  # an array of a library that is not loaded cannot exist
    if mlx is not None and isinstance(array, mlx.array):
        return "mlx"
    raise TypeError(
        f"`features` is a numpy array, an MLX array or a list of them, got {type(array).__name__}"
    )


def _frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    copy = np.array(array, order="C", copy=True, subok=False)
    copy.setflags(write=False)
    return copy
