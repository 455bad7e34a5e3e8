"""Families that cut a picture into tiles of one size, mostly with the whole picture beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vcache_cli.items import Frames, Pixels
from vcache_cli.levels import LevelTable
from vcache_cli.preprocess.levels import check_resize, first_frame, resized
from vcache_cli.preprocess.lookup import apply_table
from vcache_cli.preprocess.settings import image_settings
from vcache_cli.preprocess.tabled import Tabled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Final

    from numpy.typing import NDArray

__all__ = ["TilePlan", "TilePreprocessor", "value_settings"]

_VALUE_SETTINGS: Final = (
    *("do_convert_rgb", "do_rescale", "do_normalize", "rescale_factor", "image_mean", "image_std"),
)


class TilePlan(NamedTuple):
    """What becomes of a picture of one size."""

    resizes: tuple[tuple[int, int], ...]
    """Height and width after each resize, one after another; the last is what is cut."""
    rows: int
    columns: int
    overview: str = ""
    """What the tile of the whole picture, the last one, is made of: ``canvas`` (what is cut) or
    ``picture`` (what came in); empty where there is none."""

    @property
    def num_tiles(self) -> int:
        """Tiles in all."""
        return self.rows * self.columns + bool(self.overview)


@dataclass(frozen=True)  # no slots: the table is cached
class TilePreprocessor(Tabled):
    """Tiles of one size, as many as a plan says. Pure, picklable, any thread."""

    layout: Callable[[Mapping[str, Any], int, int], TilePlan]
    """The plan for settings, height and width; a function of a module."""

    def __call__(self, frames: Frames) -> Pixels:
        """`pixel_values` (T, 3, H, W) float32: tiles of the first frame, row by row.

        A mask of the pixels that are no padding is left out: no tile has any. `processed` adds it.

        Raises:
            EncodeError: kind ``too_long``: a picture too thin to cut.
        """
        tiles = self._tiles(frames)
        values = np.empty((len(tiles), 3, *tiles[0].shape[:2]), np.float32)
        for place, tile in zip(values, tiles, strict=True):
            apply_table(self._table, tile, out=place)
        return Pixels({"pixel_values": values}, self._tokens(len(tiles)))

    def compact(self, frames: Frames) -> Pixels:
        """The same as uint8 levels with their table.

        Raises:
            EncodeError: see `__call__`.
        """
        tiles = self._tiles(frames)
        planes = np.ascontiguousarray(np.stack(tiles).transpose(0, 3, 1, 2))
        tables = {"pixel_values": LevelTable(self._table, channel_axis=1)}
        return Pixels({"pixel_values": planes}, self._tokens(len(tiles)), tables)

    def processed(self, request: Sequence[Pixels]) -> dict[str, NDArray[Any]]:
        """Tiles of a request's pictures one after another, as the server's processor.

        `pixel_values` (T, 3, H, W), or (1, T, 3, H, W) where a request is a batch of one; and
        where the processor gives them `pixel_attention_mask` (1, T, H, W) int64, and
        `image_token_index` () int32.
        """
        values = np.concatenate([each.tensors["pixel_values"] for each in request])
        if self.settings["batch_axis"]:
            values = values[np.newaxis]
        made: dict[str, NDArray[Any]] = {"pixel_values": values}
        if self.settings["pixel_mask"]:
            shape = (*values.shape[:-3], *values.shape[-2:])
            made["pixel_attention_mask"] = np.ones(shape, np.int64)
        if self.settings.get("image_token_index") is not None:
            made["image_token_index"] = np.array(self.settings["image_token_index"], np.int32)
        return made

    @property
    def pixel_shape(self) -> tuple[int, int, int]:
        """(3, H, W) of every tile."""
        tile = self.settings["tile"]
        return 3, int(tile["height"]), int(tile["width"])

    def num_tokens(self, width: int, height: int) -> int:
        """Tokens for all tiles of a picture of that size, pixels.

        Raises:
            EncodeError: see `__call__`.
        """
        return self._tokens(self._plan(height, width).num_tiles)

    def pixel_bytes(self, width: int, height: int, *, compact: bool = False) -> int:
        """Bytes of `pixel_values`, or of its levels with their table.

        Raises:
            EncodeError: see `__call__`.
        """
        channels, high, wide = self.pixel_shape
        count = self._plan(height, width).num_tiles * channels * high * wide
        return count + channels * 256 * 4 if compact else count * 4

    def _plan(self, height: int, width: int) -> TilePlan:
        plan = self.layout(self.settings, height, width)
        for size in plan.resizes:
            check_resize((height, width), size)
        return plan

    def _tokens(self, tiles: int) -> int:
        return tiles * int(self.settings["tile_tokens"])

    def _tiles(self, frames: Frames) -> list[NDArray[np.uint8]]:
        """(H, W, 3) levels of each tile."""
        picture = first_frame(frames, convert=self.settings["do_convert_rgb"])
        plan = self._plan(*picture.shape[:2])
        resample = self.settings["resample"]
        canvas = picture
        for size in plan.resizes:
            canvas = resized(canvas, *size, resample)
        _, high, wide = self.pixel_shape
        tiles = [
            canvas[top : top + high, left : left + wide]
            for top in range(0, plan.rows * high, high)
            for left in range(0, plan.columns * wide, wide)
        ]
        if plan.overview:
            whole = canvas if plan.overview == "canvas" else picture
            tiles.append(resized(whole, high, wide, resample))
        return tiles


def value_settings(found: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a picture's colours; those of its sizes are the family's own.

    Raises:
        ModelError: a setting that cannot be followed.
    """
    kept = {name: found[name] for name in _VALUE_SETTINGS if name in found}
    settings = image_settings(kept, {**defaults, "do_resize": False, "do_center_crop": False})
    return {name: settings[name] for name in _VALUE_SETTINGS if name in settings}
