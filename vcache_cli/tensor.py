"""A tensor as dtype name, shape and bytes: no framework, so bfloat16 survives."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Final

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ITEMSIZE_BYTES", "Tensor", "bfloat16_bits", "empty_buffer"]

ITEMSIZE_BYTES: Final[dict[str, int]] = {
    "BF16": 2,
    "BOOL": 1,
    "F16": 2,
    "F32": 4,
    "F64": 8,
    "I8": 1,
    "I16": 2,
    "I32": 4,
    "I64": 8,
    "U8": 1,
    "U16": 2,
    "U32": 4,
    "U64": 8,
}
"""Bytes of one element, by the dtype names of the safetensors format."""

_NUMPY_NAMES: Final[dict[str, str]] = {
    "BF16": "<u2",
    "BOOL": "?",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
    "I8": "i1",
    "I16": "<i2",
    "I32": "<i4",
    "I64": "<i8",
    "U8": "u1",
    "U16": "<u2",
    "U32": "<u4",
    "U64": "<u8",
}


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """Elements in row-major order, little-endian."""

    dtype: str
    """A name of `ITEMSIZE_BYTES`."""
    shape: tuple[int, ...]
    """Sides, outermost first; ``()`` is a scalar."""
    data: bytes | memoryview = field(repr=False)
    """Exactly ``prod(shape) * itemsize`` bytes; never written to."""

    def __post_init__(self) -> None:
        """Check that the bytes fit the shape.

        Raises:
            ValueError: an unknown dtype, or bytes that do not fit the shape.
        """
        itemsize_bytes = ITEMSIZE_BYTES.get(self.dtype)
        if itemsize_bytes is None:
            raise ValueError(f"unknown dtype `{self.dtype}`")
        data, expected = self.data, math.prod(self.shape) * itemsize_bytes
        if (data.nbytes if isinstance(data, memoryview) else len(data)) != expected:
            raise ValueError(
                f"{self.dtype}{list(self.shape)} takes {expected} bytes, got {self.size_bytes}"
            )

    @property
    def size_bytes(self) -> int:
        """Bytes of the elements."""
        return self.data.nbytes if isinstance(self.data, memoryview) else len(self.data)

    def parts(self, name: str) -> dict[str, Tensor]:
        """What a file holds where an entry has this tensor under `name`: itself."""
        return {name: self}

    def bits(self) -> NDArray[Any]:
        """The elements as a read-only numpy array; bfloat16 as its uint16 bits."""
        array = _array_class()(self.shape, _numpy_dtype(self.dtype), self.data)
        array.setflags(write=False)
        return array

    def numpy(self) -> NDArray[Any]:
        """The elements as a numpy array; bfloat16 is widened to float32, exactly."""
        bits = self.bits()
        if self.dtype != "BF16":
            return bits
        import numpy as np

        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)

    def mlx(self) -> Any:  # noqa: ANN401  mlx ships no usable type for its arrays
        """The elements as an evaluated `mlx.core.array` of the same dtype.

        Raises:
            ImportError: no MLX backend is installed.
        """
        import mlx.core as mx

        array = mx.array(self.bits())
        if self.dtype == "BF16":
            array = array.view(mx.bfloat16)
        mx.eval(array)
        return array

    @classmethod
    def from_numpy(cls, array: NDArray[Any], dtype: str | None = None) -> Tensor:
        """The elements of `array`, in `dtype` (its own when None).

        Only float32 can be narrowed: to ``BF16`` (round to nearest, ties to even) or ``F16``.

        Raises:
            ValueError: a dtype that safetensors has no name for, or another conversion.
        """
        import numpy as np

        name = dtype or numpy_dtype_name(array.dtype)
        if name == "BF16":
            if array.dtype != np.float32:
                raise ValueError(f"only float32 is narrowed to BF16, got {array.dtype}")
            little = bfloat16_bits(array)
        else:
            little = np.ascontiguousarray(array, dtype=_NUMPY_NAMES[name])
        flat = little.reshape(-1).view(np.uint8)
        return cls(name, tuple(array.shape), flat.data if flat.size else b"")

    @classmethod
    def from_mlx(cls, array: Any) -> Tensor:  # noqa: ANN401  mlx ships no usable type for its arrays
        """A copy of the elements of an `mlx.core.array`, in its own dtype; evaluates it.

        Raises:
            ValueError: a dtype that safetensors has no name for.
        """
        import mlx.core as mx
        import numpy as np

        if array.dtype != mx.bfloat16:
            return cls.from_numpy(np.array(array))
        bits = np.array(array.reshape(-1).view(mx.uint16))
        return cls("BF16", tuple(array.shape), bits.data.cast("B") if bits.size else b"")


@cache
def _array_class() -> type[NDArray[Any]]:
    """What an `import` inside `bits` would find anew for each tensor."""
    import numpy as np

    return np.ndarray


@cache
def _numpy_dtype(name: str) -> np.dtype[Any]:
    import numpy as np

    return np.dtype(_NUMPY_NAMES[name])


def numpy_dtype_name(dtype: np.dtype[Any]) -> str:
    """The safetensors name of a numpy dtype.

    Raises:
        ValueError: it has none.
    """
    import numpy as np

    for name, numpy_name in _NUMPY_NAMES.items():
        if name != "BF16" and np.dtype(numpy_name) == dtype.newbyteorder("<"):
            return name
    raise ValueError(f"no tensor dtype for numpy `{dtype}`")


def bfloat16_bits(array: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The bfloat16 bits of float32 values: round to nearest, ties to even; NaN stays NaN."""
    import numpy as np

    bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
    rounded = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x0040)
    return np.where(nan, quiet, rounded >> np.uint32(16)).astype("<u2")


def empty_buffer(size_bytes: int) -> memoryview:
    """Writable memory that nobody has cleared, for a file that is about to be read into it."""
    import numpy as np

    return np.empty(size_bytes, np.uint8).data
