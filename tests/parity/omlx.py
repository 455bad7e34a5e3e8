"""What oMLX hashes and processes of a file: its rule as it is described, in plain Pillow calls."""

from __future__ import annotations

import math
from io import BytesIO

from PIL import Image, ImageOps

__all__ = ["omlx_picture"]


def omlx_picture(data: bytes, max_side: int) -> Image.Image:
    """The picture: brought down where a side is longer than `max_side`, then turned, then RGB."""
    image: Image.Image = Image.open(BytesIO(data))
    width, height = image.size
    if max_side and (width > max_side or height > max_side):
        scale = max_side / max(width, height)
        wanted = (max(1, math.floor(width * scale)), max(1, math.floor(height * scale)))
        image.draft(None, wanted)
        if image.mode == "1":
            image = image.convert("L")
        elif image.mode not in {"L", "RGB"}:
            image = image.convert("RGB")
        image.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
    return ImageOps.exif_transpose(image).convert("RGB")
