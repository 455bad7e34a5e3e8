"""The panels of a sheet: a source with its outlines, pixels turned back, features as colours."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vcache_cli.assemble.picture_outlines import (
    columns_for,
    outlines,
    tile_columns,
    token_layout,
)
from vcache_cli.drawing import (
    Cell,
    Panel,
    feature_colours,
    feature_grid,
    levels_of,
    pictures_of,
)
from vcache_cli.errors import VcacheError
from vcache_cli.levels import LevelTable, LevelTensor
from vcache_cli.preprocess.lookup import value_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Final

    import numpy as np
    from numpy.typing import NDArray

    from vcache_cli.assemble.picture_eyes import Eyes, Sight
    from vcache_cli.entry import Entry

__all__ = ["Seen", "feature_panel", "pixel_panel", "seen_of_entry", "seen_of_sight", "source_panel"]

_MAX_FRAMES: Final = 36
"""Of a clip that are drawn, spread evenly."""
_MAX_ELEMENTS: Final = 2**26
_GRIDS: Final = ("image_grid_thw", "video_grid_thw")
_SECONDS: Final = "vcache.frame_seconds"
_NO_TABLE: Final = (
    VcacheError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
)


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What an encoder takes, with what is needed to draw it."""

    tensors: Mapping[str, NDArray[Any]]
    tables: Mapping[str, LevelTable] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    pts_seconds: tuple[float, ...] = ()
    num_tokens: int | None = None
    columns: int | None = None
    """Tiles in a row, where that is known."""
    whole: int | None = None
    """Which tile is of the whole picture: 0 the first, -1 the last."""

    @property
    def grid(self) -> tuple[int, int, int] | None:
        """Times, rows and columns of patches."""
        found = next((self.tensors[name] for name in _GRIDS if name in self.tensors), None)
        if found is None or found.size != 3:
            return None
        times, rows, columns = (int(side) for side in found.reshape(-1))
        return times, rows, columns

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the tensors, by name."""
        return {name: tuple(array.shape) for name, array in self.tensors.items()}


def seen_of_sight(eyes: Eyes, sight: Sight) -> Seen:
    """Of a source that was preprocessed now."""
    columns = whole = None
    if sight.source is not None:
        size = sight.source.height, sight.source.width
        columns, whole = tile_columns(eyes.preprocessor, *size)
    pixels = sight.pixels
    return Seen(
        pixels.tensors,
        pixels.tables,
        eyes.settings,
        sight.pts_seconds,
        pixels.num_tokens,
        columns,
        whole,
    )


def seen_of_entry(entry: Entry, eyes: Eyes | None, like: Seen | None) -> Seen:
    """Of an entry's own pixels; `like` is what its source becomes now."""
    settings = eyes.settings if eyes else {}
    tensors, tables = {}, {}
    for name, tensor in entry.tensors.items():
        if isinstance(tensor, LevelTensor):
            tensors[name] = tensor.levels.numpy()
            tables[name] = LevelTable(tensor.table.numpy(), tensor.axis, tensor.stride)
        else:
            tensors[name] = tensor.numpy()
            if table := _table_of(tensors[name], settings):
                tables[name] = table
    return Seen(
        tensors,
        tables,
        settings,
        _seconds(entry.metadata),
        entry.provenance.num_tokens,
        like.columns if like else None,
        like.whole if like else None,
    )


def _table_of(values: NDArray[Any], settings: Mapping[str, Any]) -> LevelTable | None:
    """How levels became `values`, by the settings of the entry's recipe."""
    try:
        table = value_table(settings)
        if values.ndim == 2:
            return LevelTable(table, 1, values.shape[1] // len(table))
        return LevelTable(table, values.ndim - 3)
    except _NO_TABLE:
        return None


def _seconds(metadata: Mapping[str, str]) -> tuple[float, ...]:
    try:
        return tuple(float(text) for text in metadata.get(_SECONDS, "").split()[:100_000])
    except ValueError:
        return ()


def source_panel(eyes: Eyes, sight: Sight) -> Panel | None:
    """The source with the parts outlined that are seen by themselves; None of a video."""
    if sight.source is None:
        return None
    rgb = sight.source.rgb[0]
    height, width = rgb.shape[:2]
    boxes = outlines(eyes.preprocessor, height, width)
    return Panel(f"source, {width} x {height}", (Cell(rgb, boxes=boxes),))


def pixel_panel(seen: Seen) -> Panel | None:
    """What the encoder takes, as pictures; None where it has the shape of none."""
    name = next((name for name in seen.tensors if name.startswith("pixel_values")), None)
    if name is None:
        return None
    levels = levels_of(seen.tensors[name], seen.tables.get(name))
    pictures = pictures_of(levels, seen.grid, seen.settings)
    if pictures is None or not pictures.size:
        return None
    if seen.pts_seconds or name.endswith("videos"):
        return _frames_panel(seen, pictures)
    count, high, wide = pictures.shape[:3]
    tokens = f", {seen.num_tokens} tokens" if seen.num_tokens else ""
    if count == 1 or seen.grid is not None:  # a picture's patches hold it once for each time
        return Panel(f"what the model sees, {wide} x {high}{tokens}", (Cell(pictures[0]),))
    names = [str(number) for number in range(1, count + 1)]
    if seen.whole is not None:
        names = names[:-1]
        names.insert(len(names) if seen.whole else 0, "whole picture")
    cells = tuple(Cell(each, name) for each, name in zip(pictures, names, strict=True))
    title = f"what the model sees, {count} tiles of {wide} x {high}{tokens}"
    return Panel(title, cells, seen.columns or columns_for(count))


def _frames_panel(seen: Seen, pictures: NDArray[np.uint8]) -> Panel:
    """Frames of a clip with their times, at most so many."""
    count, high, wide = pictures.shape[:3]
    chosen = _spread(count)
    times = [f"{each:.2f} s" for each in seen.pts_seconds]
    times += times[-1:] * (count - len(times))  # the last frame fills the last patches up
    cells = tuple(
        Cell(pictures[at], times[at] if at < len(times) else str(at + 1)) for at in chosen
    )
    tokens = f", {seen.num_tokens} tokens" if seen.num_tokens else ""
    some = f" (of {count})" if len(chosen) < count else ""
    title = f"what the model sees, {len(cells)} frames{some} of {wide} x {high}{tokens}"
    return Panel(title, cells, columns_for(len(cells)))


def _spread(count: int) -> list[int]:
    if count <= _MAX_FRAMES:
        return list(range(count))
    return [round(at * (count - 1) / (_MAX_FRAMES - 1)) for at in range(_MAX_FRAMES)]


def feature_panel(entry: Entry, seen: Seen | None) -> Panel | None:
    """The features of an entry as colours, laid out as its tokens lie; None where it has none."""
    features = _features(entry)
    if features is None:
        return None
    settings = seen.settings if seen else {}
    grid = (seen.grid if seen else None) or _grid_of(entry)
    pictures, tokens = token_layout(seen.shapes if seen else {}, grid, settings)
    colours, share = feature_colours(features)
    if pictures < 1 or len(colours) % pictures:
        pictures, tokens = 1, None
    parts = colours.reshape(pictures, -1, 3)
    cells = [Cell(_laid_out(part, tokens)) for part in parts[_spread(pictures)]]
    title = f"features, {len(features)} x {features.shape[1]}: 3 main directions, {share:.0%}"
    columns = (seen.columns if seen else None) or columns_for(len(cells))
    return Panel(title, tuple(cells), columns)


def _laid_out(colours: NDArray[np.uint8], tokens: tuple[int, int] | None) -> NDArray[np.uint8]:
    rows, columns, extra = feature_grid(len(colours), tokens)
    kept = colours[extra : extra + rows * columns]
    return kept.reshape(rows, columns, 3)


def _features(entry: Entry) -> NDArray[Any] | None:
    """(N, width) of all tokens in their order; bounded."""
    names = sorted(_feature_names(entry), key=lambda name: (len(name), name))
    arrays = [entry.numpy(name) for name in names]
    arrays = [each.reshape(-1, each.shape[-1]) for each in arrays if each.ndim > 1 and each.size]
    arrays = [each for each in arrays if each.shape[1] == arrays[0].shape[1]]
    if not arrays:
        return None
    import numpy as np

    joined = np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
    return joined[: max(1, _MAX_ELEMENTS // joined.shape[1])]


def _feature_names(entry: Entry) -> Iterator[str]:
    for name, tensor in entry.tensors.items():
        is_float = tensor.dtype in {"F32", "F16", "BF16", "F64"}
        if is_float and tensor.size_bytes and name.startswith(("feature", "ec_cache")):
            yield name


def _grid_of(entry: Entry) -> tuple[int, int, int] | None:
    """The patch grid in the metadata of a server's file."""
    sides: Sequence[str] = entry.metadata.get("grid_thw", "").strip("[] ").split(",")
    if len(sides) != 3 or not all(side.strip().isdecimal() for side in sides):
        return None
    times, rows, columns = (int(side[:6]) for side in sides)
    return times, rows, columns
