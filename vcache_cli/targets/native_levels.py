"""Pixels of a native entry as uint8 levels beside their tables, as store/FORMAT.md states them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vcache_cli.errors import InvalidEntryError
from vcache_cli.levels import TABLE_ENDING, LevelTensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vcache_cli.tensor import Tensor

__all__ = ["AXIS_FIELD", "STRIDE_FIELD", "level_fields", "with_levels"]

AXIS_FIELD: Final = "channel_axis"
STRIDE_FIELD: Final = "channel_stride"
_MAX_DIGITS: Final = 10


def level_fields(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """How channels lie in the tensors that are levels; nothing where none is.

    Raises:
        InvalidEntryError: they lie differently in several, which one file cannot say.
    """
    places = {
        (tensor.axis, tensor.stride)
        for tensor in tensors.values()
        if isinstance(tensor, LevelTensor)
    }
    if not places:
        return {}
    if len(places) > 1:
        raise InvalidEntryError("levels of one entry differ in axis or stride")
    axis, stride = places.pop()
    return {AXIS_FIELD: str(axis), STRIDE_FIELD: str(stride)}


def with_levels(
    axis: str | None, stride: str | None, tensors: Mapping[str, Tensor], *, max_bytes: int
) -> dict[str, Tensor]:
    """The tensors of a file, those with a table as what their levels stand for.

    Args:
        axis, stride: the fields of the file.
        tensors: its tensors; empty where only the header was read.
        max_bytes: that one of them may take once it is expanded.

    Raises:
        InvalidEntryError: fields, levels and tables that do not fit together.
    """
    place = _count("axis", axis), _count("stride", stride)
    tables = {name for name in tensors if name.removesuffix(TABLE_ENDING) in tensors}
    tables = {name for name in tables if name.endswith(TABLE_ENDING)}
    if tensors and not tables:
        raise InvalidEntryError("levels without a table")
    return {
        name: _levels(tensor, tensors[name + TABLE_ENDING], place, max_bytes)
        if name + TABLE_ENDING in tables
        else tensor
        for name, tensor in tensors.items()
        if name not in tables
    }


def _levels(levels: Tensor, table: Tensor, place: tuple[int, int], max_bytes: int) -> LevelTensor:
    try:
        tensor = LevelTensor(levels, table, axis=place[0], stride=place[1])
    except ValueError as error:
        raise InvalidEntryError(f"levels: {error}") from error
    if tensor.size_bytes > max_bytes:
        raise InvalidEntryError(
            f"levels of {tensor.size_bytes} bytes once expanded, at most {max_bytes} are allowed",
            finding="size",
        )
    return tensor


def _count(name: str, text: str | None) -> int:
    if text is None or not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        raise InvalidEntryError(f"channel {name} {str(text)[:16]!r} is not a number")
    return int(text)
