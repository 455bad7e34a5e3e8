"""LLaVA's pixels against both servers' own processors, bit for bit."""

from __future__ import annotations

from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.parity.fixtures import Fixtures
from tests.parity.served import (
    ALL_PROFILES,
    PROFILES,
    Server,
    compare_pictures,
    compare_request,
    model_folder,
    ours,
)
from tests.parity.tally import Tally
from vcache_cli.preprocess import llava
from vcache_cli.preprocess.geometry import resized_size

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore"),  # the servers' libraries warn of much
]

PUBLISHED = {
    "crop_size": {"height": 336, "width": 336},
    "do_center_crop": True,
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_processor_type": "CLIPImageProcessor",
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "processor_class": "LlavaProcessor",
    "resample": 3,
    "rescale_factor": 0.00392156862745098,
    "size": {"shortest_edge": 336},
}
"""As llava-1.5-7b-hf has it."""
SIGLIP = {
    "do_convert_rgb": None,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_processor_type": "SiglipImageProcessor",
    "image_std": [0.5, 0.5, 0.5],
    "processor_class": "LlavaProcessor",
    "resample": 3,
    "rescale_factor": 0.00392156862745098,
    "size": {"height": 84, "width": 84},
}
OWN = {"image_processor_type": "LlavaImageProcessor"}
SMALL = {"size": {"shortest_edge": 70}, "crop_size": {"height": 70, "width": 70}}
VARIANTS: dict[str, tuple[dict[str, Any], str]] = {
    "published": (PUBLISHED, "default"),
    "published-fast-full": (
        PUBLISHED | SMALL | {"image_processor_type": "CLIPImageProcessorFast"}, "full",
    ),
    "siglip-full": (SIGLIP, "full"),
    "siglip-default": (SIGLIP | {"do_convert_rgb": True}, "default"),
    "unnamed": (SMALL, "default"),
    "own": (OWN | SMALL | {"do_pad": False}, "default"),
    "own-padded": (OWN | SMALL | {"do_pad": True}, "default"),
    "own-padded-grey": (
        OWN | SMALL | {"do_pad": True, "image_mean": [0.5, 0.25, 1.0], "do_convert_rgb": None},
        "default",
    ),
    "own-padded-black": (
        OWN | SMALL | {"do_pad": True, "image_mean": None, "do_normalize": False}, "default",
    ),
    "own-padded-whole": (
        OWN | {"do_pad": True, "do_center_crop": None, "size": {"height": 56, "width": 70}}, "full",
    ),
}  # fmt: skip
WITH_ALL = ("published-fast-full", "siglip-full", "own-padded")
"""Variants that meet every fixture; the others a part."""
PROCESSORS = {
    "transformers": "transformers",
    "mlx-vlm": "mlx_vlm.models.llava.processing_llava",
}


def make(folder: Path, variant: str, profile: str) -> tuple[Server, Path]:
    """The server's processor of a model folder."""
    found, strategy = VARIANTS[variant]
    kind = "siglip" if "siglip" in variant else "clip"
    rule = {"vision_feature_select_strategy": strategy}
    vision = {"model_type": f"{kind}_vision_model", "patch_size": 14}
    model_folder(
        folder,
        "<image>",
        config={"model_type": "llava", "vision_config": vision} | rule,
        preprocessor_config=found,
        processor_config={
            "image_token": "<image>",
            "num_additional_image_tokens": 1 if kind == "clip" else 0,
            "patch_size": 14,
            "processor_class": "LlavaProcessor",
        }
        | rule,
    )
    module = pytest.importorskip(PROCESSORS[ALL_PROFILES[profile].processors], exc_type=ImportError)
    processor = module.LlavaProcessor.from_pretrained(folder)
    return Server(ALL_PROFILES[profile], processor, "<image>", "<image>"), folder


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_pixels_and_tokens_equal_those_of_the_processor(
    variant: str, profile: str, tmp_path: Path, fixtures: Fixtures, tally: Tally
) -> None:
    server, folder = make(tmp_path, variant, profile)
    prepare = ours(llava.FAMILY, folder, server.profile)
    step = 1 if variant in WITH_ALL else 5
    assert compare_pictures(server, prepare, fixtures, (tally, "llava"), step=step) == {}


@pytest.mark.parametrize("profile", ALL_PROFILES)
@pytest.mark.parametrize("variant", ["published", "siglip-full", "own-padded"])
def test_a_request_equals_that_of_the_processor(
    variant: str, profile: str, tmp_path: Path, fixtures: Fixtures, tally: Tally
) -> None:
    server, folder = make(tmp_path, variant, profile)
    prepare = ours(llava.FAMILY, folder, server.profile)
    assert compare_request(server, prepare, fixtures, (tally, "llava")) == {}


def test_the_short_side_becomes_what_the_server_makes_of_it(tally: Tally) -> None:
    """600 x 600 sizes."""
    rule = import_module("transformers.image_transforms").get_resize_output_image_size
    level = np.zeros(1, np.uint8)
    options = {"default_to_square": False, "input_data_format": "channels_first"}
    wrong = []
    for height, width in product(range(1, 1801, 3), repeat=2):
        picture = np.broadcast_to(level, (3, height, width))
        if resized_size(height, width, {"shortest_edge": 336}) != rule(picture, 336, **options):
            wrong.append((height, width))
    tally.add("transformers-pil-5", "llava sizes", "sizes", differing=len(wrong), values=360_000)
    assert wrong == []
