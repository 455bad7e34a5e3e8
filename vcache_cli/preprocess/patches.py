"""Families whose picture becomes patches of a grid: sides to multiples, cut, table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vcache_cli.errors import EncodeError
from vcache_cli.items import Pixels
from vcache_cli.levels import LevelTable
from vcache_cli.preprocess.geometry import grid_size
from vcache_cli.preprocess.levels import first_frame, resized
from vcache_cli.preprocess.patch_settings import mlx_vlm_settings, transformers_settings
from vcache_cli.preprocess.patch_sides import PatchSides
from vcache_cli.preprocess.processors import checked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

    from numpy.typing import NDArray

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.items import Frames
    from vcache_cli.profile import Profile

__all__ = ["PatchFamily", "PatchPreprocessor"]

_BLOCK_PATCHES: Final = 64
"""Their indices stay in a processor's cache."""


@dataclass(frozen=True)  # no slots: the table is cached
class PatchPreprocessor(PatchSides):
    """Patches in the order of the grid's merged cells. Pure, picklable, any thread."""

    def __call__(self, frames: Frames) -> Pixels:
        """`pixel_values` (num_patches, 3 * T * P * P) float32, `image_grid_thw` (3,) int64.

        Raises:
            EncodeError: see `num_tokens`; kind ``too_long``: a resize without end.
        """
        levels, grid = self._cut(frames)
        count, channels, area = levels.shape
        values = np.empty((count, channels, self._temporal, area), np.float32)
        for top in range(0, count, _BLOCK_PATCHES):
            block = slice(top, top + _BLOCK_PATCHES)
            for channel, table in enumerate(self._table):
                # `clip` needs no look at each level; none is outside the table.
                taken = np.take(table, levels[block, channel], mode="clip")
                values[block, channel] = taken[:, np.newaxis]
        return self._pixels(values.reshape(count, -1), grid)

    def compact(self, frames: Frames) -> Pixels:
        """The same as uint8 levels with their table.

        Raises:
            EncodeError: see `__call__`.
        """
        levels, grid = self._cut(frames)
        repeated = np.repeat(levels[:, :, np.newaxis], self._temporal, axis=2)
        flat = repeated.reshape(len(levels), -1)
        return self._pixels(flat, grid, {"pixel_values": self._level_table})

    def processed(self, request: Sequence[Pixels]) -> dict[str, NDArray[Any]]:
        """Patches of all pictures (sum, D), and their grids (N, 3), as the server's processor."""
        parts = [each.tensors for each in request]
        return {
            "pixel_values": np.concatenate([part["pixel_values"] for part in parts]),
            "image_grid_thw": np.stack([part["image_grid_thw"] for part in parts]),
        }

    @property
    def pixel_shape(self) -> tuple[int, int, int] | None:
        """None: the grid depends on the picture."""
        return None

    def num_tokens(self, width: int, height: int) -> int:
        """Merged cells of the grid of a picture of that size, pixels.

        Raises:
            EncodeError: kind ``aspect_ratio``, or ``size`` where nothing is resized.
        """
        high, wide = self.final_size(width, height)
        return (high // self._factor) * (wide // self._factor)

    def pixel_bytes(self, width: int, height: int, *, compact: bool = False) -> int:
        """Bytes of `pixel_values` and its grid, or of the levels with their table.

        Raises:
            EncodeError: see `num_tokens`.
        """
        high, wide = self.final_size(width, height)
        count = 3 * self._temporal * high * wide
        return 3 * 8 + (count + 3 * 256 * 4 if compact else count * 4)

    def final_size(self, width: int, height: int) -> tuple[int, int]:
        """Height and width after the resize of a picture of that size, pixels.

        Raises:
            EncodeError: see `num_tokens`.
        """
        if self.settings["do_resize"]:
            limits = {name: self.settings[name] for name in ("min_pixels", "max_pixels")}
            return grid_size(height, width, factor=self._factor, **limits)
        if height % self._factor or width % self._factor:
            raise EncodeError(
                f"{width} x {height} pixels: sides are no multiples of {self._factor}, and the "
                "image processor has `do_resize` off",
                kind="size",
            )
        return height, width

    def _resized(self, frames: Frames) -> NDArray[np.uint8]:
        """(H, W, 3) uint8, sides multiples of the factor."""
        high, wide = self.final_size(frames.width, frames.height)
        rgb = first_frame(frames, convert=self.settings["do_convert_rgb"])
        if rgb.shape[:2] == (high, wide):
            return rgb
        return resized(rgb, high, wide, self.settings["resample"])

    def _cut(self, frames: Frames) -> tuple[NDArray[np.uint8], tuple[int, int]]:
        """(num_patches, 3, P * P) uint8, and rows and columns of the grid."""
        levels, side, merge = self._resized(frames), self._patch, self._merge
        rows, columns = levels.shape[0] // side, levels.shape[1] // side
        cells = levels.reshape(rows // merge, merge, side, columns // merge, merge, side, 3)
        ordered = cells.transpose(0, 3, 1, 4, 6, 2, 5)
        return ordered.reshape(rows * columns, 3, side * side), (rows, columns)

    def _pixels(
        self,
        values: NDArray[Any],
        grid: tuple[int, int],
        tables: Mapping[str, LevelTable] | None = None,
    ) -> Pixels:
        rows, columns = grid
        tensors = {
            "pixel_values": values,
            "image_grid_thw": np.array([1, rows, columns], np.int64),
        }
        return Pixels(tensors, rows * columns // self._merge**2, tables or {})


@dataclass(frozen=True, slots=True)
class PatchFamily:
    """Preprocessing of a family that differs from its neighbours by names and one default."""

    name: str
    """The `model_type`."""
    revision: int
    """Bumped by any change of ours that changes pixels."""
    model_types: tuple[str, ...]
    """Model types for which transformers takes this processor where none is named."""
    patch_size: int
    """What mlx-vlm takes where the checkpoint does not say, pixels."""

    def resolve(self, checkpoint: Checkpoint, profile: Profile) -> dict[str, Any]:
        """Settings as the server resolves them: JSON values, every default filled in.

        Raises:
            ModelError: no settings, or some that cannot be followed.
        """
        if profile.processors == "mlx-vlm":
            return mlx_vlm_settings(checkpoint, patch_size=self.patch_size)
        return transformers_settings(checkpoint, self.model_types)

    def preprocessor(self, settings: Mapping[str, Any], profile: Profile) -> PatchPreprocessor:
        """The preprocessor of resolved settings.

        Raises:
            ModelError: the profile's processors are not known here, or give no finite pixels.
        """
        return checked(PatchPreprocessor(dict(settings)), profile)
