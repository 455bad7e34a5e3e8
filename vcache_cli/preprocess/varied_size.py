"""Pictures that keep their shape: at most so long, sides rounded up to whole patches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vcache_cli.items import Frames, Pixels
from vcache_cli.levels import LevelTable
from vcache_cli.preprocess.levels import check_resize, first_frame, resized
from vcache_cli.preprocess.lookup import apply_table
from vcache_cli.preprocess.tabled import Tabled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["VariedSizePreprocessor", "whole_patches"]


def whole_patches(
    height: int, width: int, *, max_size: Mapping[str, int], patch_size: int
) -> tuple[int, int]:
    """Height and width within `max_size` before each is rounded up to whole patches.

    >>> whole_patches(480, 641, max_size={"height": 1024, "width": 1024}, patch_size=16)
    (480, 656)
    """
    ratio = max(height / max_size["height"], width / max_size["width"])
    if ratio > 1:
        height, width = math.floor(height / ratio), math.floor(width / ratio)
    return _rounded_up(height, patch_size), _rounded_up(width, patch_size)


def _rounded_up(side: int, patch_size: int) -> int:
    return ((side - 1) // patch_size + 1) * patch_size


@dataclass(frozen=True)  # no slots: the table is cached
class VariedSizePreprocessor(Tabled):
    """Each picture in a size of its own. Pure, picklable, any thread."""

    def __call__(self, frames: Frames) -> Pixels:
        """`pixel_values` (3, H, W) float32 without padding, and `image_sizes` (2,) int64: H, W.

        Raises:
            EncodeError: kind ``too_long``: a picture so thin that one side would vanish.
        """
        levels = self._levels(frames)
        return self._pixels(apply_table(self._table, levels))

    def compact(self, frames: Frames) -> Pixels:
        """The same as uint8 levels with their table, exact as long as nothing is padded.

        Raises:
            EncodeError: see `__call__`.
        """
        planes = np.ascontiguousarray(self._levels(frames).transpose(2, 0, 1))
        plain = self._pixels(planes)
        table = LevelTable(self._table, channel_axis=0)
        return Pixels(plain.tensors, plain.num_tokens, {"pixel_values": table})

    def processed(self, request: Sequence[Pixels]) -> dict[str, NDArray[Any]]:
        """`pixel_values` (N, 3, H, W) of the largest height and width, `image_sizes` (N, 2).

        What a picture lacks lies below it and to its right and is 0, which no level need stand for.
        """
        pictures = [each.tensors["pixel_values"] for each in request]
        height, width = (max(picture.shape[axis] for picture in pictures) for axis in (1, 2))
        padded = np.zeros((len(pictures), 3, height, width), np.float32)
        for place, picture in zip(padded, pictures, strict=True):
            place[:, : picture.shape[1], : picture.shape[2]] = picture
        sizes = np.stack([each.tensors["image_sizes"] for each in request])
        return {"pixel_values": padded, "image_sizes": sizes}

    @property
    def pixel_shape(self) -> tuple[int, int, int] | None:
        """None: it depends on the picture."""
        return None

    def num_tokens(self, width: int, height: int) -> int:
        """Rows of the projector's output for a picture of that size, pixels.

        The tokens that end each row and the picture are text, and not counted.

        Raises:
            EncodeError: see `__call__`.
        """
        return self._tokens(*self._final_size(height, width))

    def pixel_bytes(self, width: int, height: int, *, compact: bool = False) -> int:
        """Bytes of the tensors, or of levels with their table.

        Raises:
            EncodeError: see `__call__`.
        """
        high, wide = self._final_size(height, width)
        values = 3 * high * wide + 3 * 256 * 4 if compact else 3 * high * wide * 4
        return values + 2 * 8

    def _levels(self, frames: Frames) -> NDArray[np.uint8]:
        rgb = first_frame(frames, convert=self.settings["do_convert_rgb"])
        if not self.settings["do_resize"]:
            return rgb
        size = self._final_size(rgb.shape[0], rgb.shape[1])
        return resized(rgb, *size, self.settings["resample"])

    def _final_size(self, height: int, width: int) -> tuple[int, int]:
        if not self.settings["do_resize"]:
            return height, width
        limits, patch_size = self.settings["max_size"], self.settings["patch_size"]
        size = whole_patches(height, width, max_size=limits, patch_size=patch_size)
        check_resize((height, width), size)
        return size

    def _pixels(self, planes: NDArray[Any]) -> Pixels:
        height, width = planes.shape[1:]
        sizes = np.array([height, width], np.int64)
        tensors = {"pixel_values": planes, "image_sizes": sizes}
        return Pixels(tensors, self._tokens(height, width))

    def _tokens(self, height: int, width: int) -> int:
        side = int(self.settings["patch_size"])
        return (height // side) * (width // side)
