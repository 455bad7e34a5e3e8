"""Steps that keep a picture in uint8: what comes before its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from vcache_cli.errors import EncodeError
from vcache_cli.preprocess.geometry import MAX_RESIZED_PIXELS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vcache_cli.items import Frames

__all__ = ["check_resize", "first_frame", "resized"]


def first_frame(frames: Frames, *, convert: bool) -> NDArray[np.uint8]:
    """(H, W, 3) of the first frame.

    Args:
        convert: the server's image processor converts to RGB, and thereby puts on white what a
            transparent colour still marks.
    """
    rgb: NDArray[np.uint8] = frames.rgb[0]
    if frames.key_rgb is None or not convert:
        return rgb
    is_key = (rgb == np.array(frames.key_rgb, np.uint8)).all(axis=2, keepdims=True)
    composited: NDArray[np.uint8] = np.where(is_key, np.uint8(255), rgb)
    return composited


def check_resize(before: tuple[int, int], after: tuple[int, int]) -> None:
    """See that a resize can be done; both sizes are height and width, pixels.

    Raises:
        EncodeError: kind ``too_long``: a picture so thin that its resize has no end.
    """
    if after[0] * after[1] > MAX_RESIZED_PIXELS or min(after) < 1:
        raise EncodeError(
            f"{before[1]} x {before[0]} pixels would become {after[1]} x {after[0]}",
            kind="too_long",
            hint="crop the picture, or exclude it",
        )


def resized(levels: NDArray[np.uint8], height: int, width: int, resample: int) -> NDArray[np.uint8]:
    """(height, width, 3) of (H, W, 3) `levels`, by Pillow's filter `resample`.

    Raises:
        EncodeError: see `check_resize`.
    """
    check_resize((levels.shape[0], levels.shape[1]), (height, width))
    return np.asarray(Image.fromarray(levels).resize((width, height), resample))
