"""Crops of a picture that is much longer than wide: pure arithmetic, as the server rounds."""

from __future__ import annotations

import math

from vcache_cli.errors import EncodeError

__all__ = ["Box", "crop_boxes"]

Box = tuple[int, int, int, int]
"""Top, bottom, left, right; pixels."""


def crop_boxes(
    height: int, width: int, *, min_crop_size: int, max_num_crops: int, min_ratio: float
) -> list[Box]:
    """The crops that are looked at beside the whole picture; none where it is nearly square.

    Raises:
        EncodeError: kind ``too_long``: a crop would lie outside the picture.

    >>> crop_boxes(400, 1001, min_crop_size=256, max_num_crops=4, min_ratio=1.2)
    [(0, 400, 0, 334), (0, 400, 334, 668), (0, 400, 668, 1001)]
    """
    long, short = max(width, height), min(width, height)
    if long / short < min_ratio:
        return []
    wanted = min(math.floor(long / min_crop_size), math.floor(long / short + 0.5))
    count = min(max_num_crops, max(2, wanted))
    step = math.ceil(long / count)
    if min(step, short) < min_crop_size:
        return []
    spans = [(start, min(start + step, long)) for start in range(0, step * count, step)]
    if any(start >= stop for start, stop in spans):
        raise EncodeError(
            f"{width} x {height} pixels cannot be cut into {count} crops of {step}",
            kind="too_long",
            hint="enlarge the picture, or exclude it",
        )
    if width >= height:
        return [(0, height, start, stop) for start, stop in spans]
    return [(start, stop, 0, width) for start, stop in spans]
