"""Our pixels against the server's own code: loader and image processors, bit for bit."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from vcache_cli import media
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.errors import EncodeError, ItemError
from vcache_cli.items import Frames
from vcache_cli.preprocess import FixedSizeFamily, clip, siglip
from vcache_cli.preprocess.profiles import TRANSFORMERS_PIL_5 as PROFILE

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore"),  # the servers' libraries warn of much
]

CORPUS_COUNT = 60
DECODER = media.PillowDecoder(PROFILE)

SIZES = (
    *((1, 1), (1, 300), (300, 1), (10, 2000), (2000, 10), (333, 777), (777, 333), (224, 224)),
    *((225, 223), (63, 64), (64, 65), (500, 334), (334, 500), (31, 33), (2, 3), (641, 480)),
)
"""Width and height, pixels: thin, odd, already right, and one off."""

SIGLIP = {"image_processor_type": "SiglipImageProcessor"}
CLIP = {"image_processor_type": "CLIPImageProcessor"}
VARIANTS: dict[str, tuple[FixedSizeFamily, dict[str, Any]]] = {
    "siglip-defaults": (siglip.FAMILY, SIGLIP),
    "siglip-384": (siglip.FAMILY, SIGLIP | {"size": {"height": 384, "width": 384}}),
    "siglip-64": (siglip.FAMILY, SIGLIP | {"size": {"height": 64, "width": 64}, "resample": 3}),
    "siglip-oblong-bilinear": (
        siglip.FAMILY,
        SIGLIP | {"size": {"height": 96, "width": 160}, "resample": 2},
    ),
    "siglip-size-int": (siglip.FAMILY, SIGLIP | {"size": 64, "do_center_crop": None}),
    "siglip-no-normalise": (siglip.FAMILY, SIGLIP | {"do_normalize": False}),
    "siglip-no-rescale": (siglip.FAMILY, SIGLIP | {"do_rescale": False}),
    "siglip-no-resize": (siglip.FAMILY, SIGLIP | {"do_resize": False}),
    "siglip-rounded-factor": (siglip.FAMILY, SIGLIP | {"rescale_factor": 0.00392156862745098}),
    "siglip-scalar-mean": (siglip.FAMILY, SIGLIP | {"image_mean": 0.45, "image_std": 0.26}),
    "siglip-keeps-key": (siglip.FAMILY, SIGLIP | {"do_convert_rgb": None}),
    "clip-keeps-key": (clip.FAMILY, CLIP | {"do_convert_rgb": False}),
    "siglip-capped": (
        siglip.FAMILY,
        SIGLIP | {"size": {"shortest_edge": 96, "longest_edge": 160}},
    ),
    "siglip-boxed": (siglip.FAMILY, SIGLIP | {"size": {"max_height": 96, "max_width": 160}}),
    "clip-defaults": (clip.FAMILY, CLIP),
    "clip-336": (
        clip.FAMILY,
        CLIP | {"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}},
    ),
    "clip-old-names": (
        clip.FAMILY,
        {"feature_extractor_type": "CLIPFeatureExtractor", "size": 224, "crop_size": 224},
    ),
    "clip-crop-larger": (
        clip.FAMILY,
        CLIP | {"size": {"shortest_edge": 75}, "crop_size": {"height": 96, "width": 101}},
    ),
    "clip-crop-only": (clip.FAMILY, CLIP | {"do_resize": False, "crop_size": 97}),
    "clip-no-crop-nulls": (
        clip.FAMILY,
        CLIP | {"do_center_crop": None, "do_rescale": None, "crop_size": None, "do_pad": None},
    ),
    "clip-lanczos-oblong": (
        clip.FAMILY,
        CLIP | {"size": {"height": 80, "width": 90}, "crop_size": [64, 70], "resample": 1},
    ),
}


class Tally:
    """Counts of a session, printed when it ends."""

    def __init__(self) -> None:
        self.cases = 0
        self.values = 0
        self.differing = 0
        self.pictures = 0
        self.decoded_differently = 0


@pytest.fixture(scope="module")
def tally() -> Iterator[Tally]:
    counts = Tally()
    yield counts
    print(
        f"\npixels: {counts.cases} (settings, picture) cases, {counts.values} values, "
        f"{counts.differing} differ; "
        f"decode: {counts.pictures} (loader, picture) cases, {counts.decoded_differently} differ"
    )


def load_script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Sample media, a generated corpus of many formats, and pictures of awkward sizes."""
    samples = Path(__file__).parents[2] / "samples"
    folder = tmp_path_factory.mktemp("pictures")
    make = load_script(samples / "make_samples.py")
    corpus: list[Path] = make.make_corpus(folder / "corpus", count=CORPUS_COUNT, seed=7)
    rng = np.random.default_rng(11)
    for width, height in SIZES:
        levels = rng.integers(0, 256, (height, width, 3), np.uint8)
        path = folder / f"{width}x{height}.png"
        Image.fromarray(levels).save(path)
        corpus.append(path)
    good = [path for path in (samples / "media").rglob("*") if path.is_file()]
    found = sorted([*good, *corpus, *awkward(folder)])
    return [path for path in found if media.sniff(path.read_bytes()[:64]) == "image"]


def awkward(folder: Path) -> Iterator[Path]:
    """The modes and orientations on which loaders are known to disagree."""
    levels = np.random.default_rng(3).integers(0, 256, (45, 70, 4), np.uint8)
    rgba = Image.fromarray(levels)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        for ending in ("jpg", "png", "webp", "tiff"):
            path = folder / f"exif-{orientation}.{ending}"
            rgba.convert("RGB").save(path, exif=exif)
            yield path
    modes = {"rgba": rgba, **{mode: rgba.convert(mode) for mode in ("LA", "P", "1", "L")}}
    for mode, picture in modes.items():
        path = folder / f"mode-{mode}.png"
        picture.save(path)
        yield path
    deep = Image.fromarray(levels[:, :, 0].astype(np.uint16) * 3)
    key = rgba.convert("RGB").quantize(16).convert("RGB").getpixel((20, 20))
    for name, picture, options in (
        ("trns-p.png", rgba.convert("RGB").quantize(16), {"transparency": 3}),
        ("trns-rgb.png", rgba.convert("RGB").quantize(16).convert("RGB"), {"transparency": key}),
        ("trns-rgb-none.png", rgba.convert("RGB"), {"transparency": (1, 2, 3)}),
        ("trns-1.png", rgba.convert("1"), {"transparency": 1}),
        ("trns-bytes.png", rgba.convert("RGB").quantize(8), {"transparency": bytes(range(8))}),
        ("trns-deep.png", deep, {"transparency": 9}),
        ("trns.gif", rgba.convert("RGB").quantize(16), {"transparency": 3}),
        ("trns-l.png", rgba.convert("L"), {"transparency": 7}),
        ("deep.png", deep, {}),
        ("deep.tiff", deep, {}),
        ("cmyk.jpg", rgba.convert("CMYK"), {}),
        ("cmyk.tiff", rgba.convert("CMYK"), {}),
        ("lab.tiff", Image.new("LAB", (9, 7), (50, 20, 30)), {}),
        ("float.tiff", Image.fromarray(levels[:, :, 0].astype(np.float32) * 1.5), {}),
    ):
        picture.save(folder / name, **options)
        yield folder / name


@pytest.fixture(scope="module")
def frames(files: list[Path]) -> dict[Path, Frames]:
    return {path: DECODER.decode(path.read_bytes()) for path in files}


def folder_of(tmp_path: Path, family: FixedSizeFamily, found: Mapping[str, Any]) -> Path:
    """A model folder with these image processor settings."""
    config = {"model_type": family.name, "vision_config": {"patch_size": 8}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(dict(found)))
    return tmp_path


def server_processor(family: FixedSizeFamily, folder: Path) -> Any:  # noqa: ANN401  untyped library
    name = {"siglip": "SiglipImageProcessorPil", "clip": "CLIPImageProcessorPil"}[family.name]
    return getattr(importlib.import_module("transformers"), name).from_pretrained(folder)


def differing(ours: NDArray[Any], theirs: NDArray[Any]) -> int:
    """Values that are not the same bits, all of them where shape or dtype differ."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return max(ours.size, theirs.size)
    return int(np.count_nonzero(ours.view(np.uint8) != theirs.view(np.uint8)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_pixels_equal_those_of_the_image_processor(
    variant: str, frames: dict[Path, Frames], tmp_path: Path, tally: Tally
) -> None:
    load_image = importlib.import_module("transformers.image_utils").load_image
    family, found = VARIANTS[variant]
    folder = folder_of(tmp_path, family, found)
    theirs = server_processor(family, folder)
    settings = family.resolve(open_checkpoint(str(folder)), PROFILE)
    ours = family.preprocessor(settings, PROFILE)
    wrong = {}
    for path, picture in frames.items():
        try:
            expected = np.ascontiguousarray(theirs(load_image(str(path)))["pixel_values"][0])
        except ValueError:  # a side of the target is 0
            with pytest.raises(EncodeError):
                ours(picture)
            continue
        pixels = ours(picture)
        count = differing(pixels.tensors["pixel_values"], expected)
        height, width = picture.height, picture.width
        assert pixels.num_tokens == ours.num_tokens(width, height)
        tally.cases += 1
        tally.values += expected.size
        tally.differing += count
        if count:
            wrong[path.name] = count
    assert wrong == {}


@pytest.mark.parametrize("loader", ["transformers.image_utils", "mlx_vlm.utils"])
def test_decoded_pictures_equal_those_of_the_loader(
    loader: str, frames: dict[Path, Frames], tally: Tally
) -> None:
    load_image = pytest.importorskip(loader, exc_type=ImportError).load_image
    wrong = []
    for path, picture in frames.items():
        expected = np.asarray(load_image(str(path)))
        tally.pictures += 1
        if differing(picture.rgb[0], expected):
            tally.decoded_differently += 1
            wrong.append(path.name)
    assert wrong == []


BROKEN_EXIF = {
    "garbage": b"Exif\0\0garbage!",
    "empty": b"Exif\0\0",
    "cut": b"Exif\0\0II*\0\x08\0\0\0\x05\0\x12\x01",
    "far-offset": b"Exif\0\0II*\0\xff\xff\xff\x7f",
    "orientation-9": b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x09\0\0\0\0\0\0\0",
    "orientation-text": b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x02\0\x02\0\0\0\x36\0\0\0\0\0\0\0",
    "count-wrong": b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x00\x01\0\0\x06\0\0\0\0\0\0\0",
    "not-utf8": b"Exif\0\0II*\0\x08\0\0\0\x02\0\x0e\x01\x02\0\x04\0\0\0\xff\xfe\xe9\0"
    b"\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0",
}


@pytest.mark.parametrize("name", BROKEN_EXIF)
def test_a_broken_exif_block_is_treated_as_the_loaders_treat_it(name: str) -> None:
    load_image = pytest.importorskip("mlx_vlm.utils", exc_type=ImportError).load_image
    stream = BytesIO()
    levels = np.random.default_rng(5).integers(0, 256, (20, 30, 3), np.uint8)
    Image.fromarray(levels).save(stream, "JPEG", exif=BROKEN_EXIF[name])
    try:
        expected = np.asarray(load_image(BytesIO(stream.getvalue())))
    except Exception:  # noqa: BLE001  whatever the loader raises, we must refuse too
        with pytest.raises(ItemError):
            DECODER.decode(stream.getvalue())
        return
    assert np.array_equal(DECODER.decode(stream.getvalue()).rgb[0], expected)
