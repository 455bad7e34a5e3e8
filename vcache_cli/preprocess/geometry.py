"""Sizes and crops of fixed-size families: pure arithmetic, as the server rounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vcache_cli.errors import EncodeError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

__all__ = [
    "MAX_ASPECT_RATIO",
    "MAX_RESIZED_PIXELS",
    "Span",
    "crop_span",
    "grid_size",
    "resized_size",
]

MAX_ASPECT_RATIO: Final = 200
"""Of the long side to the short one, where sides become multiples of a factor."""

MAX_RESIZED_PIXELS: Final = 178_956_970
"""A line of 1 x 100,000 pixels would grow to 224 x 22,400,000 before its middle is taken."""

Span = tuple[int, int, int, int]
"""Source start, source end, place in the result, length of the result; pixels of one axis."""


def resized_size(height: int, width: int, size: Mapping[str, int]) -> tuple[int, int]:
    """Height and width after the resize that `size` asks for.

    Args:
        height, width: of the picture, pixels.
        size: ``height`` and ``width``; or ``shortest_edge``, with ``longest_edge`` as a cap on
            the other side where both are given; or ``max_height`` and ``max_width``.

    >>> resized_size(480, 641, {"shortest_edge": 224})
    (224, 299)
    >>> resized_size(100, 200, {"max_height": 50, "max_width": 50})
    (25, 50)
    """
    if shortest := size.get("shortest_edge"):
        longest = size.get("longest_edge")
        return _shortest_edge(height, width, shortest, longest)
    if "max_height" in size:
        scale = min(size["max_height"] / height, size["max_width"] / width)
        return int(height * scale), int(width * scale)
    return size["height"], size["width"]


def _shortest_edge(height: int, width: int, shortest: int, longest: int | None) -> tuple[int, int]:
    if longest is None:
        if width <= height:
            return int(shortest * height / width), shortest
        return shortest, int(shortest * width / height)
    short, exact = shortest, float(shortest)
    if max(height, width) / min(height, width) * shortest > longest:
        exact = longest * float(min(height, width)) / max(height, width)
        short = round(exact)
    if min(height, width) == short:
        return height, width
    if width < height:
        return int(exact * height / width), short
    return short, int(exact * width / height)


def grid_size(
    height: int, width: int, *, factor: int, min_pixels: int, max_pixels: int
) -> tuple[int, int]:
    """Height and width near those given whose sides are multiples of `factor`.

    Args:
        height, width: of the picture, pixels.
        factor: side of what becomes one token, pixels.
        min_pixels: a smaller area is enlarged to at least this.
        max_pixels: a larger area is reduced to at most this, as long as both sides keep `factor`.

    Raises:
        EncodeError: kind ``aspect_ratio``: too thin, in the words of the servers.

    >>> grid_size(1080, 1920, factor=28, min_pixels=3136, max_pixels=1_003_520)
    (728, 1316)
    """
    ratio = max(height, width) / min(height, width)
    if ratio > MAX_ASPECT_RATIO:
        raise EncodeError(
            f"absolute aspect ratio must be smaller than {MAX_ASPECT_RATIO}, got {ratio}",
            kind="aspect_ratio",
            hint="crop the picture, or exclude it",
        )
    high, wide = (round(side / factor) * factor for side in (height, width))
    if high * wide > max_pixels:
        scale = math.sqrt(height * width / max_pixels)
        high, wide = (
            max(factor, math.floor(side / scale / factor) * factor) for side in (height, width)
        )
    elif high * wide < min_pixels:
        scale = math.sqrt(min_pixels / (height * width))
        high, wide = (math.ceil(side * scale / factor) * factor for side in (height, width))
    return high, wide


def crop_span(length: int, wanted: int) -> Span:
    """Which part of an axis of `length` pixels a centre crop to `wanted` takes.

    A shorter axis lies in the middle of zeros; with an odd remainder the extra zero comes first.

    >>> crop_span(301, 224), crop_span(5, 8)
    ((38, 262, 0, 224), (0, 5, 2, 8))
    """
    if wanted <= length:
        start = (length - wanted) // 2
        return start, start + wanted, 0, wanted
    return 0, length, math.ceil((wanted - length) / 2), wanted
