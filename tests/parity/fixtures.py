"""Pictures on which loaders and processors are known to disagree, made in code, mostly small.

Every one can be decoded; tests of what cannot be make their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from vcache_cli.items import Frames
from vcache_cli.media import PillowDecoder
from vcache_cli.profile import Profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SIZES", "Fixtures", "differing", "exif_saying", "image_fixtures", "noise"]

WIDTH, HEIGHT = 70, 45
ORIENTATION = 0x0112

Named = tuple[str, Image.Image, dict[str, Any]]
"""File name, picture, and what `Image.save` is told."""

SIZES = (
    *((1, 1), (2, 3), (1, 300), (300, 1), (10, 2000), (2000, 10), (31, 33), (63, 64), (64, 65)),
    *((14, 14), (28, 28), (42, 70), (70, 42), (48, 80), (80, 48), (55, 57), (98, 126), (112, 144)),
    *((224, 224), (225, 223), (336, 336), (333, 777), (777, 333), (500, 334), (334, 500)),
    *((364, 364), (365, 728), (448, 448), (448, 896), (608, 672), (640, 480), (641, 480)),
    *((704, 704), (1280, 640), (1921, 1081)),
)
"""Width and height, pixels: thin, odd, already right, one off, halves of a factor, tied grids."""

BROKEN_XMP = b'<x:xmpmeta tiff:Orientation="6" dc:title="caf\xe9\xff"/>'
"""Not UTF-8, as cameras and editors write it."""


@dataclass
class Fixtures:
    """The fixtures as files, and decoded by each profile that asks."""

    files: dict[str, Path]
    """By name, for the server's own loader."""
    _decoded: dict[Profile, dict[str, Frames]] = field(default_factory=dict)

    def frames(self, profile: Profile) -> dict[str, Frames]:
        """Each fixture, decoded by `profile`; made once a session."""
        if profile not in self._decoded:
            decoder = PillowDecoder(profile)
            self._decoded[profile] = {
                name: decoder.decode(path.read_bytes()) for name, path in self.files.items()
            }
        return self._decoded[profile]


def noise(width: int = WIDTH, height: int = HEIGHT, *, seed: int = 3) -> Image.Image:
    """A picture of random levels with alpha, the same every time."""
    levels = np.random.default_rng(seed).integers(0, 256, (height, width, 4), np.uint8)
    return Image.fromarray(levels)


def exif_saying(orientation: int) -> Image.Exif:
    """An EXIF block that says how a picture is to be turned."""
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return exif


def differing(ours: NDArray[Any], theirs: NDArray[Any]) -> int:
    """Values that are not the same bits, all of them where shape or dtype differ."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return max(ours.size, theirs.size)
    ours, theirs = np.ascontiguousarray(ours), np.ascontiguousarray(theirs)
    unequal = ours.view(np.uint8) != theirs.view(np.uint8)
    return int(np.count_nonzero(unequal.reshape(-1, ours.itemsize).any(axis=1)))


def image_fixtures(folder: Path) -> dict[str, Path]:
    """The fixtures as files of `folder`, by their names."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    makers: tuple[Callable[[], Iterator[Named]], ...] = (_turned, _modes, _marked, _deep, _formats)
    for name, picture, options in (named for make in makers for named in make()):
        picture.save(folder / name, **options)
        made[name] = folder / name
    made["cmyk-no-adobe.jpg"] = folder / "cmyk-no-adobe.jpg"
    made["cmyk-no-adobe.jpg"].write_bytes(_without_adobe(made["cmyk.jpg"].read_bytes()))
    for width, height in SIZES:
        name = f"{width}x{height}.png"
        noise(width, height, seed=width * 7 + height).convert("RGB").save(folder / name)
        made[name] = folder / name
    return made


def _turned() -> Iterator[Named]:
    for orientation in range(1, 9):
        for ending in ("jpg", "png", "webp", "tiff"):
            yield f"exif-{orientation}.{ending}", _rgb(), {"exif": exif_saying(orientation)}
    info = PngInfo()
    info.add_itxt("XML:com.adobe.xmp", '<x tiff:Orientation="8"/>')
    yield "xmp-turned.png", _rgb(), {"pnginfo": info}
    for ending in ("jpg", "webp"):
        yield f"xmp-broken.{ending}", _rgb(), {"xmp": BROKEN_XMP}


def _modes() -> Iterator[Named]:
    for mode in ("RGBA", "LA", "P", "1", "L"):
        yield f"mode-{mode}.png", noise().convert(mode), {}
    alpha = noise().getchannel("A").point(lambda level: 0 if level < 128 else 128)
    translucent = noise()
    translucent.putalpha(alpha)
    yield "rgba-translucent.webp", translucent, {"lossless": True}
    yield "mode-PA.tiff", noise().convert("LA").convert("PA"), {}
    yield "mode-LA.tiff", noise().convert("LA"), {}
    yield "mode-1.tiff", noise().convert("1"), {}
    yield "cmyk.jpg", noise().convert("CMYK"), {}
    yield "cmyk.tiff", noise().convert("CMYK"), {}
    yield "lab.tiff", Image.new("LAB", (9, 7), (50, 20, 30)), {}
    yield "ycbcr.tiff", _rgb().convert("YCbCr"), {}


def _marked() -> Iterator[Named]:
    """Pictures in which one colour, or each by a level, is marked transparent."""
    few = _rgb().quantize(16)
    flat = few.convert("RGB")
    yield "trns-p.png", few, {"transparency": 3}
    yield "trns-rgb.png", flat, {"transparency": flat.getpixel((20, 20))}
    yield "trns-rgb-none.png", _rgb(), {"transparency": (1, 2, 3)}
    yield "trns-1.png", noise().convert("1"), {"transparency": 1}
    yield "trns-l.png", noise().convert("L"), {"transparency": 7}
    yield "trns-bytes.png", _rgb().quantize(8), {"transparency": bytes(range(8))}
    yield "trns.gif", few, {"transparency": 3}


def _deep() -> Iterator[Named]:
    levels = np.asarray(noise().getchannel("R"))
    deep = Image.fromarray(levels.astype(np.uint16) * 3)
    yield "deep.png", deep, {}
    yield "deep-full.png", Image.fromarray(levels.astype(np.uint16) * 257), {}
    yield "deep.tiff", deep, {}
    yield "deep-big-endian.tiff", deep.convert("I").convert("I;16B"), {}
    yield "deep-key.png", deep, {"transparency": 9}
    yield "float.tiff", Image.fromarray(levels.astype(np.float32) * 1.5), {}
    yield "int.tiff", Image.fromarray(levels.astype(np.int32) * 2 - 60), {}


def _formats() -> Iterator[Named]:
    second = noise(seed=4).convert("RGB")
    for ending in ("gif", "webp", "png", "tiff", "avif"):
        yield f"animated.{ending}", _rgb(), {"save_all": True, "append_images": [second]}
    photo = _rgb(321, 243).resize((640, 486))
    for name, options in (
        *(("444", {"subsampling": 0}), ("422", {"subsampling": 1}), ("420", {"subsampling": 2})),
        *(("progressive", {"progressive": True}), ("quality-30", {"quality": 30})),
    ):
        yield f"jpeg-{name}.jpg", photo, options
    yield "grey.jpg", noise().convert("L"), {}
    yield "still.webp", _rgb(), {}
    yield "lzw.tiff", _rgb(), {"compression": "tiff_lzw"}
    yield "still.avif", _rgb(), {}
    for ending in ("bmp", "ppm", "gif", "jp2"):
        yield f"still.{ending}", _rgb(), {}
    yield "icon.ico", noise(64, 64), {}


def _rgb(width: int = WIDTH, height: int = HEIGHT) -> Image.Image:
    return noise(width, height).convert("RGB")


def _without_adobe(data: bytes) -> bytes:
    """A JPEG without its APP14 segment, which says that the inks are inverted."""
    start = data.index(b"\xff\xee")
    size_bytes = 2 + int.from_bytes(data[start + 2 : start + 4], "big")
    kept = data[:start] + data[start + size_bytes :]
    with Image.open(BytesIO(kept)) as image:
        image.load()
    return kept
