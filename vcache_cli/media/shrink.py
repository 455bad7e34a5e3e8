"""Bringing a large picture down before anything else, as oMLX's loader does."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["draft_down", "fitted", "shrink"]


def shrink(image: Image.Image, max_side: int) -> Image.Image:
    """`image`, no side of it longer than `max_side` pixels; turned by nothing yet.

    The mode changes before the size does: alpha, palette and inks are gone when levels are mixed.
    """
    if not draft_down(image, max_side):
        return image
    if image.mode == "1":
        image = image.convert("L")
    elif image.mode not in {"L", "RGB"}:
        image = image.convert("RGB")
    image.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
    return image


def draft_down(image: Image.Image, max_side: int) -> bool:
    """Tell the decoder what size will do; False where no side is too long. Decodes nothing."""
    width, height = image.size
    longest = max(width, height)
    if longest <= max_side:
        return False
    scale = max_side / longest
    image.draft(None, (max(1, int(width * scale)), max(1, int(height * scale))))
    return True


def fitted(width: int, height: int, max_side: int) -> tuple[int, int]:
    """The size that `Image.thumbnail` gives a picture, pixels: no side longer than `max_side`.

    >>> fitted(4000, 3000, 2048), fitted(9000, 1, 2048), fitted(20, 10, 2048)
    ((2048, 1536), (2048, 1), (20, 10))
    """
    if max(width, height) <= max_side:
        return width, height
    aspect = width / height
    if aspect <= 1:
        return _whole(max_side * aspect, lambda side: abs(aspect - side / max_side)), max_side
    return max_side, _whole(
        max_side / aspect, lambda side: abs(aspect - max_side / side) if side else 0.0
    )


def _whole(side: float, misfit: Callable[[int], float]) -> int:
    """The neighbour of `side` that keeps the aspect best; at least 1."""
    return max(1, min((math.floor(side), math.ceil(side)), key=misfit))
