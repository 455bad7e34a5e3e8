"""How far two computations of the same may lie apart, and how far they do. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from numpy.typing import NDArray

__all__ = ["EXACT", "TOLERANCES", "Difference", "Tolerance", "compare", "tolerance_of"]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far two computations of the same may lie apart."""

    max_error: float
    """Largest difference, relative to the largest value computed anew."""
    cosine: float
    """Smallest cosine of the angle between both, over all values of a tensor."""


EXACT: Final = Tolerance(0.0, 1.0)
"""Pixels: arithmetic of the processor alone, the same everywhere."""

TOLERANCES: Final[Mapping[tuple[str, str], Tolerance]] = {
    ("F32", "F32"): Tolerance(1e-4, 1 - 1e-7),
    ("F32", "F16"): Tolerance(2**-9, 1 - 1e-5),
    ("F32", "BF16"): Tolerance(2**-7, 1 - 1e-4),
    ("F16", "F32"): Tolerance(0.02, 0.9995),
    ("F16", "F16"): Tolerance(0.02, 0.9995),
    ("F16", "BF16"): Tolerance(0.03, 0.9995),
    ("BF16", "F32"): Tolerance(0.06, 0.998),
    ("BF16", "F16"): Tolerance(0.06, 0.998),
    ("BF16", "BF16"): Tolerance(0.06, 0.998),
}
"""By the dtypes of computing and of storing. In float32, backends and machines differ in the
last bits; storing then may round to the neighbour, which is one part in 2 ** 7 for bfloat16."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where what is stored lies farthest from what was computed anew."""

    tensor: str
    max_error: float | None
    """Relative to the largest value; None where the tensors cannot be subtracted."""
    cosine: float | None

    def exceeds(self, tolerance: Tolerance) -> bool:
        """True where it is more than two computations of the same may differ."""
        if self.max_error is None or self.cosine is None:
            return True
        return not (self.max_error <= tolerance.max_error and self.cosine >= tolerance.cosine)

    def __str__(self) -> str:
        """For people."""
        if self.max_error is None or self.cosine is None:
            return f"`{self.tensor}` of another shape, or values that are no numbers"
        return f"`{self.tensor}` off by {self.max_error:.2g}, cosine {self.cosine:.6f}"


def tolerance_of(recipe: Mapping[str, Any]) -> Tolerance:
    """The row of the table that a recipe, as JSON, falls under."""
    encoder = recipe.get("encoder")
    if not isinstance(encoder, dict):
        return EXACT
    dtypes = str(encoder.get("compute_dtype")), str(encoder.get("stored_dtype"))
    return TOLERANCES.get(dtypes, EXACT)


def compare(anew: Mapping[str, NDArray[Any]], stored: Mapping[str, NDArray[Any]]) -> Difference:
    """The tensor that differs most; one that only one side has, or of another shape, before all."""
    for name in sorted(anew.keys() ^ stored.keys()):
        return Difference(name, None, None)
    found = [_difference(name, array, stored[name]) for name, array in sorted(anew.items())]
    return max(found, key=lambda each: float("inf") if each.max_error is None else each.max_error)


def _difference(name: str, anew: NDArray[Any], stored: NDArray[Any]) -> Difference:
    import numpy as np

    if anew.shape != stored.shape:
        return Difference(name, None, None)
    if not anew.size or np.array_equal(anew, stored):
        return Difference(name, 0.0, 1.0)
    x, y = (array.astype(np.float64).reshape(-1) for array in (anew, stored))
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return Difference(name, None, None)
    size = float(np.abs(x).max())
    error = float(np.abs(x - y).max()) / (size or 1.0)
    lengths = float(np.linalg.norm(x) * np.linalg.norm(y))
    return Difference(name, error, min(1.0, float(x @ y) / lengths) if lengths else 0.0)
