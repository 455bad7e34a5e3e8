"""Panels of a sheet, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Box", "Cell", "Panel"]


class Box(NamedTuple):
    """An outline on a picture; sides are shares of its height and width, 0..1."""

    top: float
    left: float
    bottom: float
    right: float
    label: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One picture of a panel."""

    rgb: NDArray[np.uint8]
    """(H, W, 3)."""
    label: str = ""
    boxes: tuple[Box, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """Pictures under a title, in rows."""

    title: str
    cells: tuple[Cell, ...]
    columns: int = 1
