"""Our pixels against the server's own code: loader and image processors, bit for bit."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.parity.fixtures import Fixtures, differing
from tests.parity.tally import Tally
from vcache_cli import media
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.errors import EncodeError
from vcache_cli.items import Frames
from vcache_cli.preprocess import FixedSizeFamily, clip, siglip
from vcache_cli.preprocess.profiles import TRANSFORMERS_PIL_5 as PROFILE

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore"),  # the servers' libraries warn of much
]

CORPUS_COUNT = 60
DECODER = media.PillowDecoder(PROFILE)

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


def load_script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pictures(fixtures: Fixtures, tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Frames]:
    """The fixtures, sample media, and a generated corpus of many formats, decoded."""
    samples = Path(__file__).parents[2] / "samples"
    make = load_script(samples / "make_samples.py")
    folder = tmp_path_factory.mktemp("corpus")
    corpus: list[Path] = make.make_corpus(folder, count=CORPUS_COUNT, seed=7)
    files = [path for path in (samples / "media").rglob("*") if path.is_file()]
    found = [path for path in sorted([*files, *corpus]) if is_image(path)]
    shared = fixtures.frames(PROFILE)
    return {
        **{path: DECODER.decode(path.read_bytes()) for path in found},
        **{path: shared[name] for name, path in fixtures.files.items()},
    }


def is_image(path: Path) -> bool:
    return media.sniff(path.read_bytes()[:64]) == "image"


def folder_of(tmp_path: Path, family: FixedSizeFamily, found: Mapping[str, Any]) -> Path:
    """A model folder with these image processor settings."""
    config = {"model_type": family.name, "vision_config": {"patch_size": 8}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(dict(found)))
    return tmp_path


def server_processor(family: FixedSizeFamily, folder: Path) -> Any:  # noqa: ANN401  untyped library
    name = {"siglip": "SiglipImageProcessorPil", "clip": "CLIPImageProcessorPil"}[family.name]
    return getattr(importlib.import_module("transformers"), name).from_pretrained(folder)


@pytest.mark.parametrize("variant", VARIANTS)
def test_pixels_equal_those_of_the_image_processor(
    variant: str, pictures: dict[Path, Frames], tmp_path: Path, tally: Tally
) -> None:
    load_image = importlib.import_module("transformers.image_utils").load_image
    family, found = VARIANTS[variant]
    folder = folder_of(tmp_path, family, found)
    theirs = server_processor(family, folder)
    settings = family.resolve(open_checkpoint(str(folder)), PROFILE)
    ours = family.preprocessor(settings, PROFILE)
    wrong = {}
    for path, picture in pictures.items():
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
        tally.add(*(PROFILE.name, family.name, path.name), differing=count, values=expected.size)
        if count:
            wrong[path.name] = count
    assert wrong == {}
