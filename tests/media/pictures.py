"""Small pictures made in code, one per format and mode."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

WIDTH, HEIGHT = 23, 17
ORIENTATION = 0x0112


def noise(mode: str = "RGB", *, width: int = WIDTH, height: int = HEIGHT) -> Image.Image:
    """A picture of random levels, the same every time."""
    levels = np.random.default_rng(1).integers(0, 256, (height, width, 4), np.uint8)
    return Image.fromarray(levels).convert(mode)


def encoded(picture: Image.Image, kind: str, **options: Any) -> bytes:  # noqa: ANN401  Pillow's
    """`picture` as a file of `kind`."""
    stream = BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def turned(orientation: int, kind: str = "PNG") -> bytes:
    """A file that says by EXIF how it is to be turned."""
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return encoded(noise(), kind, exif=exif)


def deep_grey(high: int) -> Image.Image:
    """16-bit grey from 0 to `high`."""
    levels = np.linspace(0, high, WIDTH * HEIGHT).reshape(HEIGHT, WIDTH)
    return Image.fromarray(levels.astype(np.uint16))


SAMPLES: dict[str, bytes] = {
    "jpeg": encoded(noise(), "JPEG"),
    "jpeg-progressive": encoded(noise(), "JPEG", progressive=True),
    "jpeg-cmyk": encoded(noise("CMYK"), "JPEG"),
    "jpeg-exif": turned(6, "JPEG"),
    "png": encoded(noise(), "PNG"),
    "png-alpha": encoded(noise("RGBA"), "PNG"),
    "png-palette": encoded(noise().quantize(16), "PNG", transparency=3),
    "png-deep": encoded(deep_grey(3000), "PNG"),
    "png-animated": encoded(
        noise(), "PNG", save_all=True, append_images=[noise("L").convert("RGB")]
    ),
    "gif": encoded(noise(), "GIF"),
    "gif-animated": encoded(noise(), "GIF", save_all=True, append_images=[noise("L")]),
    "webp": encoded(noise(), "WEBP"),
    "webp-lossless": encoded(noise("RGBA"), "WEBP", lossless=True),
    "avif": encoded(noise(), "AVIF"),
    "tiff": encoded(noise(), "TIFF"),
    "tiff-lzw": encoded(noise(), "TIFF", compression="tiff_lzw"),
    "tiff-big-endian": encoded(deep_grey(3000).convert("I").convert("I;16B"), "TIFF"),
    "tiff-pages": encoded(noise(), "TIFF", save_all=True, append_images=[noise()]),
    "bmp": encoded(noise(), "BMP"),
    "ppm": encoded(noise(), "PPM"),
    "pgm": encoded(noise("L"), "PPM"),
    "pbm": encoded(noise("1"), "PPM"),
    "ico": encoded(noise("RGBA", width=16, height=16), "ICO"),
    "jpeg-2000": encoded(noise(), "JPEG2000"),
}
