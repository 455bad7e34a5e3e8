"""What `PillowDecoder` does with Pillow: encoded pictures to RGB by a profile's rules.

Two things of the process are changed, at the first decode and for good: warnings that Pillow's
own modules raise go to who decodes (they would print, or become exceptions), and
`Image.MAX_IMAGE_PIXELS` is raised where `max_pixels` asks for more than Pillow allows. The limit
that counts is checked here, per item, before decoding.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from vcache_cli.errors import MediaError
from vcache_cli.items import Frames, Kind
from vcache_cli.media.jxl import jxl_size
from vcache_cli.media.losses import losses
from vcache_cli.media.measure import measured, measured_jxl, with_metadata_first
from vcache_cli.media.notices import PLUGIN, WARNED
from vcache_cli.media.plugins import plugin_format
from vcache_cli.media.shrink import shrink
from vcache_cli.media.sniff import describe, format_of, has_pnm_header, sniff
from vcache_cli.media.warned import decoder_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from numpy.typing import NDArray

    from vcache_cli.profile import Profile

__all__ = ["CODEC_ERRORS", "PillowPictures"]

CODEC_ERRORS: Final = (
    *(OSError, EOFError, SyntaxError, ValueError, TypeError, struct.error, OverflowError),
    *(IndexError, KeyError, AttributeError, ZeroDivisionError, RuntimeError, AssertionError),
)
"""What Pillow's plug-ins raise on damaged files."""

_FORMATS: Final = ("JPEG", "PNG", "GIF", "WEBP", "AVIF", "TIFF", "BMP", "PPM", "ICO",
                   "JPEG2000")  # fmt: skip
"""What `sniff` calls an image and Pillow can open; no format that runs another program."""

_SMALLER: Final = "leave it out, save a smaller copy of it, or raise the limit with `--max-pixels`"
_AGAIN: Final = "copy or download it again"


@dataclass(frozen=True, slots=True)
class PillowPictures:
    """Decodes and measures under the limits of a `PillowDecoder`."""

    profile: Profile
    max_pixels: int
    max_file_bytes: int

    def decode(self, data: bytes) -> Frames:
        """The picture in `data`, the first frame where there are more: (1, H, W, 3).

        Raises:
            MediaError: kind ``not_media``, ``unsupported``, ``too_large``, ``bomb``,
                ``truncated``, ``corrupt``, ``exif_broken`` or ``memory``.
        """
        plugin = self._check(data)
        with (
            self._telling(data),
            decoder_warnings() as warned,
            self._opened(data, plugin) as image,
        ):
            rgb = self._rgb(image)
            told = tuple(f"{WARNED}: {text}" for text in warned)
            kinds = losses(image, data, keeps_key="transparency" in rgb.info)
            levels = np.asarray(rgb)
            kinds = (*kinds, *((PLUGIN,) if plugin else ()), *told)
            return Frames(levels[np.newaxis], warnings=kinds, key_rgb=_key(rgb, levels))

    def measure(self, data: bytes) -> tuple[int, int]:
        """Width and height, pixels, of what `decode` will give; reads the header, decodes nothing.

        Raises:
            MediaError: the header cannot be read, or says that a limit is passed.
        """
        plugin = self._check(data)
        if plugin == "JXL":
            with _broken_exif_told():
                return measured_jxl(data, self.profile)
        with (
            self._telling(data),
            decoder_warnings(),
            self._opened(with_metadata_first(data), plugin) as image,
        ):
            self._check_size(*image.size)
            with _broken_exif_told():
                return measured(image, self.profile)

    def _check(self, data: bytes) -> str | None:
        """The format of the plug-in that decodes it; None where Pillow does by itself."""
        head = data[:64]
        if len(data) > self.max_file_bytes:
            message = f"{len(data)} bytes, more than the limit of {self.max_file_bytes}"
            raise MediaError(message, kind="too_large", hint="raise it with `--max-file-size`")
        if sniff(head) is not Kind.IMAGE:
            raise MediaError(f"not a picture: looks like {describe(head)}", kind="not_media")
        found = format_of(head) or ""
        if found == "PNM" and not has_pnm_header(data):
            raise MediaError("its header has no end", kind="corrupt", hint=_AGAIN)
        plugin = plugin_format(found)
        if plugin == "JXL":  # it decodes as it opens
            self._check_size(*jxl_size(data))
        return plugin

    @contextmanager
    def _telling(self, data: bytes) -> Iterator[None]:
        """What Pillow raises on `data`, as a MediaError."""
        try:
            yield
        except Image.DecompressionBombError as error:
            raise self._too_many_pixels("far too many pixels") from error
        except MemoryError as error:
            raise MediaError("not enough memory to decode it", kind="memory") from error
        except UnidentifiedImageError as error:
            found = describe(data[:64])
            message = f"starts like {found}, but is damaged"
            raise MediaError(message, kind="corrupt", hint=_AGAIN) from error
        except CODEC_ERRORS as error:
            raise _decode_error(error) from error

    def _opened(self, data: bytes, plugin: str | None) -> Image.Image:
        # Pillow refuses at twice this number; it must not refuse before we do.
        allowed = Image.MAX_IMAGE_PIXELS
        if allowed is not None and self.max_pixels > 2 * allowed:
            Image.MAX_IMAGE_PIXELS = -(-self.max_pixels // 2)
        return Image.open(BytesIO(data), formats=(plugin,) if plugin else _FORMATS)

    def _rgb(self, image: Image.Image) -> Image.Image:
        self._check_size(*image.size)
        if self.profile.max_side is not None:
            image = shrink(image, self.profile.max_side)
        image.load()
        if self.profile.exif:
            with _broken_exif_told():
                ImageOps.exif_transpose(image, in_place=True)
        return image if image.mode == "RGB" else image.convert("RGB")

    def _check_size(self, width: int, height: int) -> None:
        if width * height > self.max_pixels:
            raise self._too_many_pixels(f"{width} x {height} = {width * height} pixels")
        if width * height == 0:
            raise MediaError(f"an empty picture: {width} x {height} pixels", kind="corrupt")

    def _too_many_pixels(self, found: str) -> MediaError:
        message = f"{found}, the limit is {self.max_pixels}"
        return MediaError(message, kind="bomb", hint=_SMALLER)


@contextmanager
def _broken_exif_told() -> Iterator[None]:
    """Around what the loaders do too: they fail where it does."""
    try:
        yield
    except CODEC_ERRORS as error:
        raise MediaError(
            f"its EXIF block cannot be read, and the server fails on it too: {_text(error)}",
            kind="exif_broken",
            hint="save the picture again without metadata",
        ) from error


def _key(rgb: Image.Image, levels: NDArray[np.uint8]) -> tuple[int, int, int] | None:
    """The colour that `rgb` still marks as transparent, where a pixel has it."""
    if rgb.info.get("transparency") is None:
        return None
    try:
        alpha = np.asarray(rgb.convert("RGBA").getchannel("A"))
    except CODEC_ERRORS:  # a mark that makes no sense; an image processor fails on it
        return None
    place = int(np.argmin(alpha))
    if alpha.flat[place]:
        return None
    red, green, blue = levels.reshape(-1, 3)[place].tolist()
    return red, green, blue


def _decode_error(error: Exception) -> MediaError:
    text = _text(error)
    # Pillow has no type of its own for this; another wording only gives the wider kind.
    if "truncated" in text.lower():
        return MediaError(f"cut short: {text}", kind="truncated", hint=_AGAIN)
    return MediaError(f"damaged: {text}", kind="corrupt", hint=_AGAIN)


def _text(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
