"""One fixed treatment for every picture: resize, centre crop, table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vcache_cli.items import Frames, Pixels
from vcache_cli.levels import LevelTable
from vcache_cli.preprocess.geometry import crop_span, resized_size
from vcache_cli.preprocess.levels import check_resize, first_frame, resized
from vcache_cli.preprocess.lookup import apply_table
from vcache_cli.preprocess.tabled import Tabled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["FixedSizePreprocessor"]


@dataclass(frozen=True)  # no slots: the table is cached
class FixedSizePreprocessor(Tabled):
    """One treatment for every picture. Pure, picklable, any thread."""

    def __call__(self, frames: Frames) -> Pixels:
        """`pixel_values` (3, H, W) float32 of the first frame.

        Raises:
            EncodeError: kind ``too_long``: a picture so thin that its resize has no end.
        """
        levels = self._levels(frames)
        values = apply_table(self._table, levels)
        return Pixels({"pixel_values": values}, self._tokens(*levels.shape[:2]))

    def compact(self, frames: Frames) -> Pixels:
        """The same as uint8 levels with their table.

        Raises:
            EncodeError: see `__call__`.
        """
        levels = self._levels(frames)
        planes = np.ascontiguousarray(levels.transpose(2, 0, 1))
        table = LevelTable(self._table, channel_axis=0)
        return Pixels(
            {"pixel_values": planes}, self._tokens(*levels.shape[:2]), {"pixel_values": table}
        )

    def processed(self, request: Sequence[Pixels]) -> dict[str, NDArray[Any]]:
        """`pixel_values` (N, 3, H, W) of a request's pictures, as the server's processor."""
        return {"pixel_values": np.stack([each.tensors["pixel_values"] for each in request])}

    def _levels(self, frames: Frames) -> NDArray[np.uint8]:
        rgb = first_frame(frames, convert=self.settings["do_convert_rgb"])
        return self._cropped(self._resized(rgb))

    @property
    def pixel_shape(self) -> tuple[int, int, int] | None:
        """(3, H, W); None where neither a crop nor a resize to two given sides fixes it."""
        if self.settings["do_center_crop"]:
            size = self.settings["crop_size"]
        elif self.settings["do_resize"]:
            size = self.settings["size"]
        else:
            return None
        if "height" not in size or "width" not in size:
            return None
        return 3, int(size["height"]), int(size["width"])

    def num_tokens(self, width: int, height: int) -> int:
        """Rows of the tower's output for a picture of that size, pixels.

        Raises:
            EncodeError: see `__call__`.
        """
        return self._tokens(*self._final_size(width, height))

    def pixel_bytes(self, width: int, height: int, *, compact: bool = False) -> int:
        """Bytes of `pixel_values`, or of its levels with their table.

        Raises:
            EncodeError: see `__call__`.
        """
        high, wide = self._final_size(width, height)
        return 3 * high * wide + 3 * 256 * 4 if compact else 3 * high * wide * 4

    def _final_size(self, width: int, height: int) -> tuple[int, int]:
        if self.settings["do_resize"]:
            before = height, width
            height, width = resized_size(height, width, self.settings["size"])
            check_resize(before, (height, width))
        if self.settings["do_center_crop"]:
            crop = self.settings["crop_size"]
            height, width = crop["height"], crop["width"]
        return height, width

    def _tokens(self, height: int, width: int) -> int:
        side = int(self.settings["patch_size"])
        return (height // side) * (width // side) + int(self.settings["extra_tokens"])

    def _resized(self, rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
        if not self.settings["do_resize"]:
            return rgb
        height, width = resized_size(rgb.shape[0], rgb.shape[1], self.settings["size"])
        return resized(rgb, height, width, self.settings["resample"])

    def _cropped(self, levels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        if not self.settings["do_center_crop"]:
            return levels
        crop = self.settings["crop_size"]
        top, bottom, below, height = crop_span(levels.shape[0], crop["height"])
        left, right, beside, width = crop_span(levels.shape[1], crop["width"])
        part = levels[top:bottom, left:right]
        if part.shape[:2] == (height, width):
            return part
        padded = np.zeros((height, width, 3), np.uint8)
        padded[below : below + part.shape[0], beside : beside + part.shape[1]] = part
        return padded
