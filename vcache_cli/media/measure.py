"""The size that a picture will have, by its header alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PIL import Image

from vcache_cli.media.jxl import jxl_exif, jxl_size
from vcache_cli.media.shrink import draft_down, fitted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from vcache_cli.profile import Profile

__all__ = ["measured", "measured_jxl", "with_metadata_first"]

_ORIENTATION: Final = 0x0112
_SIDEWAYS: Final = frozenset({5, 6, 7, 8})
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_METADATA: Final = frozenset({b"eXIf", b"iTXt", b"tEXt", b"zTXt"})
_LEVELS: Final = b"IDAT"


def measured(image: Image.Image, profile: Profile) -> tuple[int, int]:
    """Width and height, pixels, of `image` once decoded by `profile`. Decodes nothing."""
    # A TIFF has its upright size from the start: Pillow itself turns it as it loads.
    turns = profile.exif and image.format != "TIFF"
    # The base class's own: that of PNG loads the picture to look for a late block.
    sideways = turns and Image.Image.getexif(image).get(_ORIENTATION) in _SIDEWAYS
    if profile.max_side is not None:
        draft_down(image, profile.max_side)
    return _brought_down(*image.size, profile, sideways=sideways)


def measured_jxl(data: bytes, profile: Profile) -> tuple[int, int]:
    """As `measured`, of a JPEG XL picture.

    Raises:
        MediaError: there is no header.
    """
    exif = Image.Exif()
    exif.load(jxl_exif(data))
    sideways = profile.exif and exif.get(_ORIENTATION) in _SIDEWAYS
    return _brought_down(*jxl_size(data), profile, sideways=sideways)


def _brought_down(width: int, height: int, profile: Profile, *, sideways: bool) -> tuple[int, int]:
    if profile.max_side is not None:
        width, height = fitted(width, height, profile.max_side)
    return (height, width) if sideways else (width, height)


def with_metadata_first(data: bytes) -> bytes:
    """A PNG whose metadata stands before its levels, where a header is read; all else as it is."""
    if not data.startswith(_PNG):
        return data
    chunks = list(_chunks(data))
    first = next((at for at, kind, _ in chunks if kind == _LEVELS), len(data))
    late = [data[at:end] for at, kind, end in chunks if at > first and kind in _METADATA]
    return b"".join([data[:first], *late, data[first:]]) if late else data


def _chunks(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Where each whole chunk starts, its name, and where it ends."""
    at = len(_PNG)
    while at + 12 <= len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data):
            return
        yield at, data[at + 4 : at + 8], end
        at = end
