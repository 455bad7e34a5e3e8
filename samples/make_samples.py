"""Draw the sample media: small pictures that look real, and any number more of them.

Without arguments, writes `media/` (good files) and `bad/` (files that no decoder accepts)
beside this script. `--corpus DIR --count N` fills DIR with N pictures, no two alike, of many
formats and sizes in nested folders. The same library versions give the same bytes every run.
"""

from __future__ import annotations

import argparse
import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import av
import numpy as np
from PIL import ExifTags, Image, ImageDraw, ImageFont, ImageOps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    Canvas = NDArray[np.float32]
    """(H, W, 3), linear steps between 0 and 1."""
    Values = NDArray[np.floating]
    Scene = Callable[[np.random.Generator, int, int], Image.Image]

HERE = Path(__file__).resolve().parent
MIN_SIDE_PX = 64
MAX_SIDE_PX = 1200

SKIES = (
    ((0.22, 0.45, 0.80), (0.78, 0.88, 0.95), (0.20, 0.34, 0.14)),  # noon
    ((0.20, 0.17, 0.38), (0.98, 0.60, 0.35), (0.16, 0.12, 0.14)),  # dusk
    ((0.45, 0.55, 0.72), (0.99, 0.86, 0.76), (0.30, 0.36, 0.22)),  # dawn
    ((0.50, 0.55, 0.60), (0.82, 0.84, 0.85), (0.25, 0.28, 0.24)),  # overcast
)
"""Zenith, horizon and ground colour of four times of day."""

WORDS = (
    *("river", "stone", "harbour", "lantern", "market", "window", "orchard", "winter"),
    *("signal", "copper", "meadow", "bridge", "letter", "garden", "engine", "valley"),
)


def noise(rng: np.random.Generator, width: int, height: int, *, cells: int) -> Canvas:
    """Fractal noise in 0..1, (H, W, 1); the coarsest octave has `cells` cells across."""
    total = np.zeros((height, width), np.float32)
    for octave in range(4):
        grid = rng.random((cells + 1, cells + 1), np.float32)
        layer = Image.fromarray(grid).resize((width, height), Image.Resampling.BICUBIC)
        total += np.asarray(layer) * np.float32(0.5**octave)
        cells *= 2
    unit: Canvas = np.clip(total / np.float32(1.875), 0, 1)
    return unit[:, :, None]


def mix(first: Values, second: Values, share: Values | float) -> Canvas:
    """`first` where `share` is 0, `second` where it is 1."""
    return (first + (second - first) * share).astype(np.float32)


def colour(rng: np.random.Generator, base: ArrayLike) -> Canvas:
    """(1, 1, 3): `base`, a little off."""
    shifted = np.asarray(base, np.float32) + rng.normal(0, 0.04, 3)
    return np.clip(shifted, 0, 1).astype(np.float32)[None, None]


def develop(rng: np.random.Generator, canvas: Canvas, *, grain: float = 2.5) -> Image.Image:
    """The picture a camera makes of a canvas, with sensor grain (in 8-bit steps)."""
    exposed = canvas * 255 + rng.standard_normal(canvas.shape[:2], np.float32)[:, :, None] * grain
    return Image.fromarray(np.clip(exposed, 0, 255).astype(np.uint8))


def axes(width: int, height: int) -> tuple[Canvas, Canvas]:
    """Column (1, W, 1) and row (H, 1, 1) positions, 0..1."""
    across = np.linspace(0, 1, width, dtype=np.float32)[None, :, None]
    down = np.linspace(0, 1, height, dtype=np.float32)[:, None, None]
    return across, down


def ridge(rng: np.random.Generator, across: Canvas, *, base: float) -> Canvas:
    """Height of a mountain line above each column, (1, W, 1)."""
    line = np.full_like(across, base)
    for octave in range(1, 7):
        waves, phase = rng.uniform(0.6, 1.4) * 2**octave, rng.uniform(0, 2 * np.pi)
        line += np.float32(0.09 / octave**1.5) * np.sin(across * waves * 2 + phase)
    return line


def landscape(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    """Sun, clouds and three chains of hills, the far ones hazy."""
    across, down = axes(width, height)
    zenith, horizon, ground = (colour(rng, base) for base in SKIES[rng.integers(len(SKIES))])
    canvas = mix(zenith, horizon, np.minimum(down * 1.8, 1))
    clouds = np.clip(noise(rng, width, height, cells=3) * 3 - 1.5, 0, 1) * (1 - down)
    canvas = mix(canvas, np.ones_like(horizon), clouds * 0.8)
    sun_x, sun_y = rng.uniform(0.1, 0.9), rng.uniform(0.1, 0.4)
    glow = np.exp(-((across - sun_x) ** 2 + (down - sun_y) ** 2) * 40)
    canvas = mix(canvas, colour(rng, (1, 0.95, 0.8)), glow * 0.8)
    for step, base in enumerate((0.45, 0.6, 0.78)):
        rough = noise(rng, width, height, cells=6 * (step + 1)) * 0.8 + 0.6
        hill = mix(horizon, ground, (step + 1.5) / 3.5) * rough
        edge = np.clip((down - ridge(rng, across, base=base)) * height, 0, 1)  # antialiased
        canvas = mix(canvas, hill, edge)
    return develop(rng, canvas)


def still_life(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    """Fruit on a wooden table, lit from the upper left."""
    across, down = axes(width, height)
    across = across * (width / height)  # so that fruit is round
    wood = noise(rng, width, height, cells=4)
    grain = np.sin((down * 60 + wood * 14) * (0.6 + down))
    table = colour(rng, (0.55, 0.36, 0.2)) * (0.85 + 0.12 * grain)
    wall = colour(rng, rng.uniform(0.4, 0.8, 3)) * (1.05 - 0.5 * down) * (0.85 + 0.3 * wood)
    canvas = mix(wall, table, np.clip((down - 0.45) * height / 4, 0, 1))
    for place in np.sort(rng.uniform(0.5, 0.8, rng.integers(3, 7))).tolist():  # far ones first
        centre, radius = rng.uniform(0.1, 0.9) * width / height, rng.uniform(0.1, 0.2)
        x, y = (across - centre) / radius, (down - place) / radius
        shadow = np.exp(-((x - 0.5) ** 2) - ((y - 0.9) * 3) ** 2)
        depth = np.sqrt(np.clip(1 - x * x - y * y, 0, 1))
        light = np.clip(-0.5 * x - 0.6 * y + 0.62 * depth, 0, 1)
        skin = colour(rng, rng.uniform((0.5, 0.1, 0), (1, 0.7, 0.2))) * (0.25 + light)
        skin = mix(skin, np.ones((1, 1, 3), np.float32), light**24)
        canvas = mix(canvas * (1 - 0.5 * shadow), skin, np.clip(depth * 6, 0, 1))
    return develop(rng, canvas)


def ink(rng: np.random.Generator) -> tuple[int, int, int]:
    """A colour dark enough to read on white."""
    red, green, blue = (int(part) for part in rng.integers(20, 150, 3))
    return red, green, blue


def chart(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    """Bars with a line over them, a title, a grid and numbered axes."""
    image = Image.new("RGB", (width, height), "white")
    draw, size_px = ImageDraw.Draw(image), max(8, height // 18)
    font = ImageFont.load_default(size_px)
    left, top, right, bottom = width * 0.12, height * 0.14, width * 0.96, height * 0.88
    draw.text((left, height * 0.02), " ".join(rng.choice(WORDS, 3)), ink(rng), font)
    for tick in range(6):
        y = bottom - (bottom - top) * tick / 5
        draw.line((left, y, right, y), (215, 215, 215))
        draw.text((2, y - size_px / 2), str(tick * 20), (60, 60, 60), font)
    values = np.clip(rng.normal(0.5, 0.1, int(rng.integers(6, 14))).cumsum() % 1, 0.04, 1)
    step, fill = (right - left) / len(values), ink(rng)
    heights = bottom - (bottom - top) * values
    for bar, y in enumerate(heights.tolist()):
        x = left + bar * step
        draw.rectangle((x + step * 0.15, y, x + step * 0.85, bottom), fill)
    line = bottom - (bottom - top) * rng.uniform(0.1, 0.95, len(values))
    points = [(left + (at + 0.5) * step, y) for at, y in enumerate(line.tolist())]
    draw.line(points, ink(rng), max(1, height // 120))
    draw.line((left, top, left, bottom, right, bottom), "black")
    return image


def page(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    """A page of text on slightly toned paper."""
    paper = tuple(int(part) for part in rng.integers(238, 256, 3))
    image = Image.new("RGB", (width, height), paper)
    draw, size_px = ImageDraw.Draw(image), max(8, round(math.sqrt(width * height) / 26))
    margin, text, y = width * 0.08, ink(rng), height * 0.06
    title = ImageFont.load_default(size_px * 1.5)
    draw.text((margin, y), " ".join(rng.choice(WORDS, 3)).title(), text, title)
    body, y = ImageFont.load_default(size_px), y + size_px * 2.6
    while y < height - margin - size_px:
        words, line = iter(rng.choice(WORDS, 60)), ""
        while body.getlength(f"{line} {(word := next(words))}") < width - 2 * margin:
            line = f"{line} {word}".strip()
        draw.text((margin, y), line, text, body)
        y += size_px * (1.4 if rng.random() < 0.85 else 2.4)  # now and then a paragraph ends
    return image


SCENES: tuple[Scene, ...] = (landscape, still_life, chart, page)


def rgb(image: Image.Image) -> Image.Image:
    """The picture as it is."""
    return image


def mode(name: str) -> Callable[[Image.Image], Image.Image]:
    """A conversion to one of Pillow's modes."""
    return lambda image: image.convert(name)


def faded(image: Image.Image) -> Image.Image:
    """RGBA: opaque in the middle, clear at the corners."""
    across, down = axes(*image.size)
    alpha = np.clip(1.6 - 2 * np.hypot(across - 0.5, down - 0.5) * 1.3, 0, 1)[:, :, 0]
    image = image.convert("RGBA" if image.mode == "RGB" else "LA")
    image.putalpha(Image.fromarray((alpha * 255).astype(np.uint8)))
    return image


def palette(image: Image.Image) -> Image.Image:
    """At most 128 colours."""
    return image.quantize(128)


def deep_grey(image: Image.Image) -> Image.Image:
    """16-bit grey that uses all 16 bits."""
    red, green, blue = np.moveaxis(np.asarray(image, np.uint32), -1, 0)
    return Image.fromarray((red * 77 + green * 151 + blue * 29).astype(np.uint16))


UNDO = {
    3: Image.Transpose.ROTATE_180,
    6: Image.Transpose.ROTATE_90,
    8: Image.Transpose.ROTATE_270,
}
"""How a camera held that way stores an upright view."""


def exif(orientation: int) -> Image.Exif:
    """EXIF that says how to turn the stored pixels upright."""
    tags = Image.Exif()
    tags[ExifTags.Base.Orientation] = orientation
    return tags


class Variant(NamedTuple):
    """One way to store a picture."""

    suffix: str
    convert: Callable[[Image.Image], Image.Image]
    options: dict[str, Any]

    def save(self, image: Image.Image, path: Path) -> Path:
        """Write an RGB picture to `path`, made to end in the right suffix."""
        path = path.with_name(path.name + self.suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.convert(image).save(path, **self.options)
        return path


def held(orientation: int) -> Variant:
    """JPEG of a camera held another way."""
    options = {"quality": 85, "exif": exif(orientation)}
    return Variant(".jpg", lambda image: image.transpose(UNDO[orientation]), options)


AVIF = {"quality": 70, "speed": 9, "max_threads": 1}  # one thread: same bytes on any machine
VARIANTS = {  # many kinds first, so that a small corpus is varied too
    "jpeg-baseline": Variant(".jpg", rgb, {"quality": 85}),
    "png-rgb": Variant(".png", rgb, {}),
    "webp-lossy": Variant(".webp", rgb, {"quality": 80, "method": 2}),
    "gif": Variant(".gif", palette, {}),
    "avif": Variant(".avif", rgb, AVIF),
    "tiff": Variant(".tiff", rgb, {"compression": "tiff_lzw"}),
    "bmp": Variant(".bmp", rgb, {}),
    "jpeg-exif6": held(6),
    "png-rgba": Variant(".png", faded, {}),
    "jpeg-progressive": Variant(".jpeg", rgb, {"progressive": True, "subsampling": 0}),
    "ppm": Variant(".ppm", rgb, {}),
    "png-palette": Variant(".png", palette, {}),
    "jpeg-grey": Variant(".jpg", mode("L"), {"quality": 85}),
    "png-16bit": Variant(".png", deep_grey, {}),
    "jpeg-cmyk": Variant(".jpg", mode("CMYK"), {"quality": 85}),
    "webp-lossless": Variant(".webp", rgb, {"lossless": True, "quality": 0, "method": 0}),
    "jpeg-exif3": held(3),
    "png-grey-alpha": Variant(".png", lambda image: faded(ImageOps.grayscale(image)), {}),
    "jpeg-exif8": held(8),
    "jpeg2000": Variant(".jp2", rgb, {"quality_mode": "rates", "quality_layers": [20]}),
    "ico": Variant(".ico", rgb, {}),
}

MEDIA: tuple[tuple[str, str, Scene, tuple[int, int]], ...] = (
    ("hills", "jpeg-baseline", landscape, (320, 240)),
    ("phone-upright", "jpeg-exif6", landscape, (180, 240)),
    ("fruit-faded", "png-rgba", still_life, (120, 90)),
    ("fruit-palette", "png-palette", still_life, (160, 120)),
    ("press", "jpeg-cmyk", still_life, (200, 150)),
    ("depth", "png-16bit", landscape, (128, 96)),
    ("valley", "webp-lossy", landscape, (400, 225)),
    ("coast", "avif", landscape, (384, 256)),
    ("scan", "tiff", page, (210, 297)),
    ("thumbnail", "bmp", still_life, (96, 72)),
    ("chart", "png-rgb", chart, (360, 240)),
    ("trip/letter", "png-rgb", page, (300, 400)),
)
"""Name, variant, scene, (width, height)."""

FIRST_SEED = 200  # shows every time of day


def pan(seed: int, *, width: int, height: int, count: int) -> list[Image.Image]:
    """Frames of a camera that moves over a landscape."""
    wide = landscape(np.random.default_rng(seed), width * 3 // 2, height)
    lefts = [round(at * (wide.width - width) / (count - 1)) for at in range(count)]
    return [wide.crop((left, 0, left + width, height)) for left in lefts]


def write_video(path: Path, frames: Sequence[Image.Image], *, fps: int) -> None:
    """Write an H.264 MP4 without sound."""
    with av.open(path, "w", options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream("libx264", fps, options={"crf": "26", "threads": "1"})
        stream.width, stream.height, stream.pix_fmt = *frames[0].size, "yuv420p"
        for image in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.asarray(image))))
        container.mux(stream.encode())


def make_media(folder: Path) -> list[Path]:
    """Write the good samples, two of them byte for byte the same; return every path."""
    paths = []
    for seed, (name, variant, scene, size) in enumerate(MEDIA, FIRST_SEED):
        image = scene(np.random.default_rng(seed), *size)
        paths.append(VARIANTS[variant].save(image, folder / name))
    copy, moving, clip = (folder / name for name in ("trip/hills-copy.jpg", "pan.gif", "clip.mp4"))
    shutil.copyfile(paths[0], copy)
    first, *rest = pan(40, width=96, height=72, count=5)
    first.save(moving, save_all=True, append_images=rest, duration=120, loop=0)
    write_video(clip, pan(41, width=160, height=120, count=12), fps=12)
    return [*paths, copy, moving, clip]


def make_bad(folder: Path) -> list[Path]:
    """Write files that must fail to decode: cut short, of another kind, empty."""
    image = landscape(np.random.default_rng(50), 160, 120)
    cut = VARIANTS["jpeg-baseline"].save(image, folder / "truncated")
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    html, empty = folder / "not-found.jpg", folder / "empty.png"
    html.write_text("<!DOCTYPE html>\n<title>404</title>\n<h1>Not found</h1>\n", "utf-8")
    empty.write_bytes(b"")
    return [cut, html, empty]


def corpus_size(rng: np.random.Generator) -> tuple[int, int]:
    """Width and height, pixels: small ones are more frequent, at most 2:1 either way."""
    longer = math.exp(rng.uniform(math.log(MIN_SIDE_PX), math.log(MAX_SIDE_PX)))
    shorter = max(MIN_SIDE_PX, longer * rng.uniform(0.5, 1))
    width, height = (longer, shorter) if rng.random() < 0.6 else (shorter, longer)
    return round(width), round(height)


def make_corpus(folder: Path, *, count: int, seed: int = 0) -> list[Path]:
    """Write `count` different pictures under `folder`; return their paths, in order.

    Picture *n* depends on `seed` and *n* alone: a larger corpus begins with a smaller one.
    Names tell the variant: `album-1/day-2/00007-jpeg-exif6.jpg`.
    """
    paths, names = [], list(VARIANTS)
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        image = SCENES[number % len(SCENES)](rng, *corpus_size(rng))
        name = names[number % len(names)]
        place = folder / f"album-{number // 50}" / f"day-{number % 50 // 10}"
        paths.append(VARIANTS[name].save(image, place / f"{number:05d}-{name}"))
    return paths


def main() -> None:
    """Read the command line and write what it asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="write a corpus there instead")
    parser.add_argument("--count", type=int, default=100, help="pictures in the corpus")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other pictures")
    options = parser.parse_args()
    if options.corpus:
        make_corpus(options.corpus, count=options.count, seed=options.seed)
    else:
        make_media(HERE / "media")
        make_bad(HERE / "bad")


if __name__ == "__main__":
    main()
