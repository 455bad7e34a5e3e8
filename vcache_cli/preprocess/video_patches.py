"""Clips that become patches of a grid with a time axis: Qwen's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vcache_cli.clips import ClipPlan
from vcache_cli.errors import EncodeError
from vcache_cli.items import Pixels
from vcache_cli.levels import LevelTable
from vcache_cli.preprocess.levels import resized
from vcache_cli.preprocess.patch_sides import PatchSides
from vcache_cli.preprocess.sampling import sample_frames
from vcache_cli.preprocess.torch_resize import torch_resized
from vcache_cli.preprocess.video_settings import TORCH
from vcache_cli.preprocess.video_sizes import clip_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Final

    from numpy.typing import NDArray

    from vcache_cli.clips import ClipFacts
    from vcache_cli.items import Frames

__all__ = ["PatchClipPreprocessor", "chosen_frames", "fitting"]

_VALUES: Final = "pixel_values_videos"


def chosen_frames(settings: Mapping[str, Any], facts: ClipFacts) -> tuple[int, ...]:
    """Indices of the frames that there will be: each once where torch's servers decode.

    Raises:
        EncodeError: kind ``sampling``.
    """
    indices = sample_frames(settings["sampling"], facts)
    if settings["resizer"] == TORCH:  # `index in indices`, frame by frame
        indices = tuple(sorted({index for index in indices if index < facts.num_frames}))
    return indices[: facts.delivered]


def fitting(
    settings: Mapping[str, Any], size: tuple[int, int]
) -> Callable[[NDArray[np.uint8]], NDArray[np.uint8]]:
    """(H, W, 3) levels to (*size, 3), as the server resizes."""
    resize = torch_resized if settings["resizer"] == TORCH else resized
    return partial(_fit, resize, size, settings["resample"])


def _fit(
    resize: Callable[[NDArray[np.uint8], int, int, int], NDArray[np.uint8]],
    size: tuple[int, int],
    resample: int,
    levels: NDArray[np.uint8],
) -> NDArray[np.uint8]:
    return levels if levels.shape[:2] == size else resize(levels, *size, resample)


@dataclass(frozen=True)  # no slots: the table is cached
class PatchClipPreprocessor(PatchSides):
    """Patches in the order of the grid's merged cells, time first. Pure, picklable, any thread."""

    def plan(self, facts: ClipFacts) -> ClipPlan:
        """Which frames the server takes, and the size that it brings them to.

        Raises:
            EncodeError: kind ``sampling``, ``aspect_ratio``, ``size`` or ``too_long``.
        """
        indices = chosen_frames(self.settings, facts)
        size = clip_size(self.settings, len(indices), facts.height, facts.width)
        return ClipPlan(indices, size, fitting(self.settings, size))

    def __call__(self, frames: Frames) -> Pixels:
        """Patches (N, 3 * T * P * P) float32 and `video_grid_thw` (3,) int64 of fitted frames."""
        grid = self._grid(frames)
        times, rows, columns = grid
        width = 3 * self._temporal * self._patch**2
        values = np.empty((times, rows * columns, width), np.float32)
        for at in range(times):
            values[at] = self._level_table.expand(self._cut(frames.rgb, at))
        return self._pixels(values.reshape(-1, width), grid)

    def compact(self, frames: Frames) -> Pixels:
        """The same as uint8 levels with their table."""
        grid = self._grid(frames)
        times, rows, columns = grid
        width = 3 * self._temporal * self._patch**2
        levels = np.empty((times, rows * columns, width), np.uint8)
        for at in range(times):
            levels[at] = self._cut(frames.rgb, at)
        return self._pixels(levels.reshape(-1, width), grid, {_VALUES: self._level_table})

    def processed(self, request: Sequence[Pixels]) -> dict[str, NDArray[Any]]:
        """Patches of all clips (sum, D), and their grids (N, 3), as the server's processor."""
        parts = [each.tensors for each in request]
        return {
            _VALUES: np.concatenate([part[_VALUES] for part in parts]),
            "video_grid_thw": np.stack([part["video_grid_thw"] for part in parts]),
        }

    def num_tokens(self, facts: ClipFacts) -> int:
        """Merged cells of all times of the grid of a clip.

        Raises:
            EncodeError: see `plan`.
        """
        plan = self.plan(facts)
        times = math.ceil(len(plan.indices) / self._temporal)
        return times * math.prod(plan.size) // self._factor**2

    def pixel_bytes(self, facts: ClipFacts, *, compact: bool = False) -> int:
        """Bytes of the tensors for a clip.

        Raises:
            EncodeError: see `plan`.
        """
        plan = self.plan(facts)
        times = math.ceil(len(plan.indices) / self._temporal)
        count = 3 * times * self._temporal * math.prod(plan.size)
        return 3 * 8 + (count + 3 * 256 * 4 if compact else count * 4)

    def _grid(self, frames: Frames) -> tuple[int, int, int]:
        if frames.height % self._factor or frames.width % self._factor:
            raise EncodeError(
                f"{frames.width} x {frames.height} pixels: sides are no multiples of "
                f"{self._factor}",
                kind="size",
            )
        times = math.ceil(len(frames.rgb) / self._temporal)
        return times, frames.height // self._patch, frames.width // self._patch

    def _cut(self, rgb: NDArray[np.uint8], at: int) -> NDArray[np.uint8]:
        """(rows * columns, 3 * T * P * P) levels of one time; the last frame fills it up."""
        first = at * self._temporal
        places = np.minimum(np.arange(first, first + self._temporal), len(rgb) - 1)
        side, merge = self._patch, self._merge
        rows, columns = rgb.shape[1] // side, rgb.shape[2] // side
        cells = rgb[places].reshape(
            self._temporal, rows // merge, merge, side, columns // merge, merge, side, 3
        )
        ordered = cells.transpose(1, 4, 2, 5, 7, 0, 3, 6)
        return ordered.reshape(rows * columns, -1)

    def _pixels(
        self,
        values: NDArray[Any],
        grid: tuple[int, int, int],
        tables: Mapping[str, LevelTable] | None = None,
    ) -> Pixels:
        tensors = {_VALUES: values, "video_grid_thw": np.array(grid, np.int64)}
        return Pixels(tensors, math.prod(grid) // self._merge**2, tables or {})
