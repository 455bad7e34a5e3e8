"""What the conversion to RGB lost of a picture: told to the user, never changed."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import TYPE_CHECKING, Any

from PIL import Image

from vcache_cli.media.notices import ALPHA, ANIMATION, CMYK, GREY16, KEY

if TYPE_CHECKING:
    from typing import Final

__all__ = ["losses"]

_ANIMATED: Final = frozenset({"AVIF", "GIF", "PNG", "TIFF", "WEBP"})
_DEEP: Final = frozenset({"F", "I", "I;16", "I;16B", "I;16L", "I;16N"})
_LATER_FRAME_ERRORS: Final = (
    *(OSError, EOFError, SyntaxError, ValueError, TypeError, struct.error, OverflowError),
    *(IndexError, KeyError, AttributeError, RuntimeError, Image.DecompressionBombError),
)


def losses(image: Image.Image, data: bytes, *, keeps_key: bool) -> tuple[str, ...]:
    """Kinds of what is lost of a loaded `image`, decoded from `data`, when it becomes RGB.

    Args:
        keeps_key: the RGB picture still marks one colour as transparent.
    """
    shows_through = _shows_through(image)
    tests = (
        (ALPHA, shows_through and not keeps_key),
        (ANIMATION, image.format in _ANIMATED and _has_more(data)),
        (CMYK, image.mode == "CMYK"),
        (GREY16, image.mode in _DEEP and _high(image) > 255),
        (KEY, shows_through and keeps_key),
    )
    return tuple(kind for kind, lost in tests if lost)


def _shows_through(image: Image.Image) -> bool:
    """Any pixel is not opaque."""
    if image.mode in {"RGBA", "LA", "PA", "RGBa", "La"}:
        return _low(image.getchannel(image.getbands()[-1])) < 255
    if image.info.get("transparency") is None or image.mode not in {"1", "L", "P", "RGB"}:
        return False
    try:
        return _low(image.convert("RGBA").getchannel("A")) < 255
    except (TypeError, ValueError):  # a transparent colour that makes no sense for the mode
        return False


def _has_more(data: bytes) -> bool:
    """A second frame or page. Looked up in a file of its own: seeking may leave it unusable."""
    try:
        with Image.open(BytesIO(data)) as again:
            return bool(getattr(again, "is_animated", False))
    except _LATER_FRAME_ERRORS:
        return False


def _low(band: Image.Image) -> float:
    return _extreme(band.getextrema(), 0)


def _high(band: Image.Image) -> float:
    # Pillow finds extremes in one byte order only.
    whole = band.convert("I") if band.mode in _DEEP - {"F", "I", "I;16"} else band
    return _extreme(whole.getextrema(), 1)


def _extreme(extrema: Any, side: int) -> float:  # noqa: ANN401  Pillow types it as either of two
    return float(extrema[side])
