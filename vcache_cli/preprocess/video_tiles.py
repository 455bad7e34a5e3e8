"""Clips whose frames become pictures of one size, each with the same number of tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vcache_cli.clips import ClipPlan
from vcache_cli.items import Pixels
from vcache_cli.levels import LevelTable
from vcache_cli.preprocess.levels import check_resize
from vcache_cli.preprocess.lookup import apply_table
from vcache_cli.preprocess.tabled import Tabled
from vcache_cli.preprocess.video_patches import chosen_frames, fitting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vcache_cli.clips import ClipFacts
    from vcache_cli.items import Frames

__all__ = ["FrameClipPreprocessor"]


@dataclass(frozen=True)  # no slots: the table is cached
class FrameClipPreprocessor(Tabled):
    """One picture per frame. Pure, picklable, any thread."""

    def plan(self, facts: ClipFacts) -> ClipPlan:
        """Which frames the server takes, and the size that it brings them to.

        Raises:
            EncodeError: kind ``sampling`` or ``too_long``.
        """
        indices = chosen_frames(self.settings, facts)
        size = self._size
        between = self._between(facts.height, facts.width)
        last = fitting(self.settings, size)
        if between is None:
            return ClipPlan(indices, size, last)
        check_resize((facts.height, facts.width), between)
        return ClipPlan(indices, size, _Twice(fitting(self.settings, between), last))

    def __call__(self, frames: Frames) -> Pixels:
        """(T, 3, H, W) float32 of fitted frames, under the name that the server gives it."""
        values = np.empty((len(frames.rgb), 3, *self._size), np.float32)
        for place, levels in zip(values, frames.rgb, strict=True):
            apply_table(self._table, levels, out=place)
        return Pixels({self._name: values}, self._tokens(len(values)))

    def compact(self, frames: Frames) -> Pixels:
        """The same as uint8 levels with their table."""
        planes = np.ascontiguousarray(frames.rgb.transpose(0, 3, 1, 2))
        tables = {self._name: LevelTable(self._table, channel_axis=1)}
        return Pixels({self._name: planes}, self._tokens(len(planes)), tables)

    def processed(self, request: Sequence[Pixels]) -> dict[str, NDArray[Any]]:
        """Clips of a request as the server's processor gives them: (N, T, 3, H, W).

        Shorter clips end in zeros where the processor fills them up; its mask says nothing of it.
        """
        clips = [each.tensors[self._name] for each in request]
        longest = max(len(each) for each in clips)
        values = np.zeros((len(clips), longest, *clips[0].shape[1:]), np.float32)
        for place, each in zip(values, clips, strict=True):
            place[: len(each)] = each
        made: dict[str, NDArray[Any]] = {self._name: values}
        if self.settings["pixel_mask"]:
            made["pixel_attention_mask"] = np.ones((*values.shape[:2], *values.shape[3:]), np.int64)
        return made

    def num_tokens(self, facts: ClipFacts) -> int:
        """Tokens for a clip.

        Raises:
            EncodeError: see `plan`.
        """
        return self._tokens(len(self.plan(facts).indices))

    def pixel_bytes(self, facts: ClipFacts, *, compact: bool = False) -> int:
        """Bytes of the tensors for a clip.

        Raises:
            EncodeError: see `plan`.
        """
        count = len(self.plan(facts).indices) * 3 * math.prod(self._size)
        return count + 3 * 256 * 4 if compact else count * 4

    @property
    def _name(self) -> str:
        return str(self.settings["tensor"])

    @property
    def _size(self) -> tuple[int, int]:
        size = self.settings["size"]
        return int(size["height"]), int(size["width"])

    def _tokens(self, frames: int) -> int:
        return frames * int(self.settings["frame_tokens"])

    def _between(self, height: int, width: int) -> tuple[int, int] | None:
        """Where a frame is brought to its longest side first; the other becomes even."""
        longest = self.settings.get("longest_side")
        if longest is None:
            return None
        ratio = width / height
        if width >= height:
            height, width = int(longest / ratio), longest
            height += height % 2
        else:
            height, width = longest, int(longest * ratio)
            width += width % 2
        return max(height, 1), max(width, 1)


@dataclass(frozen=True, slots=True)
class _Twice:
    """One resize after another."""

    first: Any
    last: Any

    def __call__(self, levels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        fitted: NDArray[np.uint8] = self.last(self.first(levels))
        return fitted
