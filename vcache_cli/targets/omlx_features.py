"""What the shapes in oMLX's files say: rows against grids, one width a model. Pure."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vcache_cli.protocols import ServerFinding
from vcache_cli.targets.omlx_names import omlx_grid, omlx_tensor_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vcache_cli.protocols import StoredFile

__all__ = ["FeatureFile", "feature_findings", "read_features"]

_MAX_SIDE: Final = 2**31
"""A grid beyond this is nonsense, and its product may be too long to print."""
_SHOWN: Final = 80
"""Characters of a hostile text that a message shows."""


@dataclass(frozen=True, slots=True, eq=False)
class FeatureFile:
    """The features in one file."""

    file: StoredFile
    model_name: str
    image_hash: str
    grid: tuple[int, int, int] | None
    """In patches before merging; None where the server would ignore what the file says."""
    rows: int | None
    """Tokens of a single array; None for a list of arrays, whose grid would be of one of them."""
    is_flat: bool
    """True for a single array (rows, width), as the Qwen family's encoders give it."""
    width: int | None
    """Length of the last axis, where all arrays agree in it."""

    @property
    def patches(self) -> int | None:
        """Those of the grid; None where it makes no sense."""
        if self.grid is None or not all(0 < side < _MAX_SIDE for side in self.grid):
            return None
        return math.prod(self.grid)

    @property
    def merge(self) -> int | None:
        """Patches to a side of a token that make grid and rows agree; None where none does."""
        if not self.rows or self.patches is None or self.grid is None:
            return None
        ratio, rest = divmod(self.patches, self.rows)
        side = math.isqrt(ratio)
        if rest or side * side != ratio or self.grid[1] % side or self.grid[2] % side:
            return None
        return side


def read_features(file: StoredFile) -> FeatureFile:
    """What one file says, as far as it says anything."""
    metadata = file.metadata or {}
    shapes = [shape for _, shape in file.tensors.values()]
    single = shapes[0] if list(file.tensors) == ["feature"] and len(shapes[0]) > 1 else None
    widths = {shape[-1] for shape in shapes if shape}
    return FeatureFile(
        file,
        metadata.get("model_name", ""),
        metadata.get("image_hash", ""),
        omlx_grid(metadata),
        None if single is None else math.prod(single[:-1]),
        single is not None and len(single) == 2,
        widths.pop() if len(widths) == 1 else None,
    )


def feature_findings(
    features: Iterable[FeatureFile], is_folder: Callable[[str], bool]
) -> Iterator[ServerFinding]:
    """What is odd about files that the server indexes, each judged among those of its model."""
    models: dict[str, list[FeatureFile]] = {}
    for each in features:
        models.setdefault(each.model_name, []).append(each)
    for model, same in models.items():
        if model.startswith("/") and not is_folder(model):
            for each in same:
                yield _finding(each, "model_gone", None, f"no folder {model:.200} on this machine")
        yield from _counts(same)
        yield from _widths(same)
        yield from _grids(same)
        yield from _without_grid(same)
        yield from _token_counts(same)


def _finding(each: FeatureFile, kind: str, expected: str | None, actual: str) -> ServerFinding:
    return ServerFinding(each.file.path, kind, expected, actual)


def _counts(same: Iterable[FeatureFile]) -> Iterator[ServerFinding]:
    for each in same:
        said, names = (each.file.metadata or {}).get("num_tensors", "1"), set(each.file.tensors)
        wanted = omlx_tensor_names(None if "feature" in names else len(names))
        if said == str(len(names)) and names == set(wanted):
            continue
        found = ", ".join(sorted(names)) or "none"
        yield _finding(each, "num_tensors", f"{said:.{_SHOWN}} tensors", f"{found:.{_SHOWN}}")


def _widths(same: Sequence[FeatureFile]) -> Iterator[ServerFinding]:
    usual = _usual(each.width for each in same if each.width is not None)
    for each in same:
        if each.width is None and each.file.tensors:
            yield _finding(each, "width_mismatch", "one width", "arrays of several widths")
        elif each.width is not None and each.width != usual.value:
            yield _finding(each, "width_mismatch", f"width {usual}", f"width {each.width}")


def _grids(same: Sequence[FeatureFile]) -> Iterator[ServerFinding]:
    """Grids that do not fit the rows; no file says how many patches a token is made of."""
    usual = _usual(each.merge for each in same if each.merge is not None)
    for each in same:
        if each.grid is None or each.rows is None:
            continue
        if each.merge is None:
            expected = "t * h * w = rows * k * k with some k"
        elif each.merge != usual.value:
            expected = f"t * h * w = rows * k * k with k = {usual}"
        else:
            continue
        yield _finding(each, "grid_mismatch", expected, _equation(each))


def _equation(each: FeatureFile) -> str:
    if each.patches is None or each.grid is None:
        return "a grid with a side that is no number of patches"
    shape = " * ".join(map(str, each.grid))
    told = "" if each.merge is None else f", k = {each.merge}"
    return f"{shape} = {each.patches} patches, {each.rows} rows{told}"


def _without_grid(same: Sequence[FeatureFile]) -> Iterator[ServerFinding]:
    """Rows as of the Qwen family without a grid: the server has to run its image processor."""
    if any(each.grid for each in same):
        told = "no `grid_thw`, so that the image is processed again: the slow path"
    else:
        told = "no `grid_thw` in any entry of the model: the slow path, if it is of the Qwen family"
    for each in same:
        if each.is_flat and each.grid is None:
            text = (each.file.metadata or {}).get("grid_thw")
            ignored = "" if text is None else f"`{text:.{_SHOWN}}` is ignored; "
            yield _finding(each, "no_grid", None, ignored + told)


def _token_counts(same: Sequence[FeatureFile]) -> Iterator[ServerFinding]:
    """Arrays (1, tokens, width) of several lengths: told once for the model, it is no mistake."""
    unlike = [each for each in same if each.rows is not None and not each.is_flat]
    counts = {each.rows for each in unlike}
    if len(counts) > 1:
        told = f"{len(counts)} token counts in {len(unlike):,} entries of {same[0].model_name:.200}"
        risk = "oMLX up to 0.6.4 fails on a request that mixes them"
        yield _finding(unlike[0], "token_counts", None, f"{told}: {risk}")


@dataclass(frozen=True, slots=True)
class _Usual:
    """What most of a model's entries have."""

    value: int | None
    """None where as many have another value, or nobody has any."""
    count: int
    total: int

    def __str__(self) -> str:
        """How it was decided."""
        if self.value is None:
            return "that of most entries (as many have another)"
        return f"{self.value}, as in {self.count:,} of {self.total:,} entries of the model"


def _usual(values: Iterable[int]) -> _Usual:
    counts = Counter(values)
    ranked = [*counts.most_common(2), (0, 0)]
    if not counts or ranked[0][1] == ranked[1][1]:
        return _Usual(None, 0, counts.total())
    return _Usual(*ranked[0], counts.total())
