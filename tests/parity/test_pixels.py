"""Our pixels against the server's own code: loader and image processors, bit for bit."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.parity.fixtures import Fixtures, differing
from tests.parity.omlx import omlx_picture
from tests.parity.tally import Tally
from vcache_cli import media
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.errors import EncodeError
from vcache_cli.items import Frames
from vcache_cli.preprocess import FixedSizeFamily, clip, siglip
from vcache_cli.preprocess.profiles import MLX_VLM_0_7, OMLX
from vcache_cli.preprocess.profiles import TRANSFORMERS_PIL_5 as PROFILE
from vcache_cli.profile import Profile

if TYPE_CHECKING:
    from PIL import Image

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

WITH_ALL = ("siglip-defaults", "siglip-384", "clip-defaults", "clip-336")
"""Variants that meet every picture; the others a part, and all that mark a colour transparent."""
STEP = 4


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


def compare(
    variant: str,
    profile: Profile,
    pictures: Mapping[Path, Frames],
    folder: Path,
    tally: Tally,
) -> dict[str, int]:
    """Differing values of each picture, where there are any."""
    family, found = VARIANTS[variant]
    folder_of(folder, family, found)
    theirs = server_processor(family, folder)
    ours = family.preprocessor(family.resolve(open_checkpoint(str(folder)), profile), profile)
    wrong = {}
    for path, picture in pictures.items():
        try:
            expected = theirs(loaded(path, profile))["pixel_values"][0]
        except ValueError:  # a side of the target is 0
            with pytest.raises(EncodeError):
                ours(picture)
            with pytest.raises(EncodeError):
                ours.num_tokens(picture.width, picture.height)
            continue
        pixels = ours(picture)
        count = differing(pixels.tensors["pixel_values"], np.ascontiguousarray(expected))
        assert pixels.num_tokens == ours.num_tokens(picture.width, picture.height)
        tally.add(*(profile.name, family.name, path.name), differing=count, values=expected.size)
        if count:
            wrong[path.name] = count
    return wrong


def loaded(path: Path, profile: Profile) -> Image.Image:
    """The picture as the server's loader gives it."""
    if profile is OMLX:
        return omlx_picture(path.read_bytes(), OMLX.max_side or 0)
    name = "mlx_vlm.utils" if profile.processors == "mlx-vlm" else "transformers.image_utils"
    found: Image.Image = importlib.import_module(name).load_image(str(path))
    return found


@pytest.mark.parametrize("variant", VARIANTS)
def test_pixels_equal_those_of_the_image_processor(
    variant: str, pictures: dict[Path, Frames], tmp_path: Path, tally: Tally
) -> None:
    step = 1 if variant in WITH_ALL else STEP
    chosen = {
        path: picture
        for place, (path, picture) in enumerate(pictures.items())
        if place % step == 0 or "trns" in path.name
    }
    assert compare(variant, PROFILE, chosen, tmp_path, tally) == {}


@pytest.mark.parametrize("profile", [MLX_VLM_0_7, OMLX], ids=lambda profile: profile.name)
@pytest.mark.parametrize("variant", ["siglip-defaults", "clip-defaults"])
def test_pixels_of_mlx_servers_equal_those_of_the_image_processor(
    variant: str, profile: Profile, fixtures: Fixtures, tmp_path: Path, tally: Tally
) -> None:
    """They take the image processors of transformers, on pictures of their own loaders."""
    frames = fixtures.frames(profile)
    chosen = {fixtures.files[name]: picture for name, picture in frames.items()}
    assert compare(variant, profile, chosen, tmp_path, tally) == {}
