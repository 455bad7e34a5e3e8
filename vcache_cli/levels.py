"""A float32 tensor that is kept as uint8 levels and a table, and expanded where it is used."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vcache_cli.tensor import Tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["TABLE_ENDING", "LevelTable", "LevelTensor"]

TABLE_ENDING: Final = ".lut"
"""What a table's name adds to that of its levels."""
_LEVELS: Final = 256
_ITEMSIZE_BYTES: Final = 4
_BLOCK_LEVELS: Final = 65536
"""Expanded at once, so that both sides stay in cache."""


@dataclass(frozen=True, slots=True, eq=False)
class LevelTable:
    """What each uint8 level of each channel stands for, where pixels are kept as levels."""

    values: NDArray[np.float32]
    """(C, 256) float32."""
    channel_axis: int
    """The axis of the levels along which channels alternate."""
    channel_stride: int = 1
    """Neighbours of one channel along it: index i belongs to channel ``i // stride % C``."""

    def expand(self, levels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The float32 values of `levels`, in the same shape."""
        import numpy as np

        shape, axis, channels = levels.shape, self.channel_axis, len(self.values)
        inner = self.channel_stride * math.prod(shape[axis + 1 :])
        rows = math.prod(shape[:axis]) * (shape[axis] // (channels * self.channel_stride))
        apart = levels.reshape(rows, channels, inner)
        expanded = np.empty(shape, np.float32)
        places = expanded.reshape(rows, channels, inner)
        high = max(1, _BLOCK_LEVELS // max(1, channels * inner))
        for top in range(0, rows, high):
            for left in range(0, inner, _BLOCK_LEVELS):
                part = slice(top, top + high), slice(left, left + _BLOCK_LEVELS)
                for channel, values in enumerate(self.values):
                    found = np.take(values, apart[part[0], channel, part[1]], mode="clip")
                    places[part[0], channel, part[1]] = found  # `clip`: none is outside
        return expanded


class LevelTensor(Tensor):
    """What `levels` stand for, as an F32 tensor; its bytes are made at the first look. Any thread.

    Args:
        levels: U8.
        table: F32 (C, 256), the value of each level of each channel.
        axis: of `levels`, along which channels alternate.
        stride: neighbours of one channel along it: index i belongs to channel
            ``i // stride % C``.

    Raises:
        ValueError: they do not fit together.
    """

    __slots__ = ("_expanded", "axis", "levels", "stride", "table")

    levels: Tensor
    table: Tensor
    axis: int
    stride: int
    _expanded: memoryview | bytes | None

    def __init__(self, levels: Tensor, table: Tensor, *, axis: int, stride: int) -> None:
        channels = _channels(levels, table)
        if not (0 <= axis < len(levels.shape) and stride > 0):
            raise ValueError(f"no axis {axis} with stride {stride} in {list(levels.shape)}")
        if levels.shape[axis] % (channels * stride):
            raise ValueError(
                f"side {levels.shape[axis]} is no multiple of {channels} channels of {stride}"
            )
        for name, value in (
            ("dtype", "F32"),
            ("shape", levels.shape),
            ("levels", levels),
            ("table", table),
            ("axis", axis),
            ("stride", stride),
            ("_expanded", None),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, levels: NDArray[np.uint8], table: LevelTable) -> LevelTensor:
        """The tensor of an array and its table."""
        return cls(
            Tensor.from_numpy(levels),
            Tensor.from_numpy(table.values),
            axis=table.channel_axis,
            stride=table.channel_stride,
        )

    @property
    def data(self) -> bytes | memoryview:
        """The float32 values; made once."""
        found = self._expanded
        if found is None:
            found = Tensor.from_numpy(self._expand()).data  # twice by two threads: the same
            object.__setattr__(self, "_expanded", found)
        return found

    @property
    def size_bytes(self) -> int:
        """Bytes of the float32 values."""
        return math.prod(self.shape) * _ITEMSIZE_BYTES

    def parts(self, name: str) -> dict[str, Tensor]:
        """The levels and, beside them, their table."""
        return {name: self.levels, name + TABLE_ENDING: self.table}

    def _expand(self) -> NDArray[np.float32]:
        table = LevelTable(self.table.bits(), self.axis, self.stride)
        return table.expand(self.levels.bits())

    def __repr__(self) -> str:
        return f"LevelTensor(shape={self.shape}, axis={self.axis}, stride={self.stride})"


def _channels(levels: Tensor, table: Tensor) -> int:
    if levels.dtype != "U8" or table.dtype != "F32":
        raise ValueError(f"levels are U8 with an F32 table, got {levels.dtype} and {table.dtype}")
    if len(table.shape) != 2 or table.shape[0] < 1 or table.shape[1] != _LEVELS:
        raise ValueError(f"a table has {_LEVELS} values per channel, got {list(table.shape)}")
    return table.shape[0]
