"""Pixtral's and Mistral 3's pixels against both servers' own processors, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from vcache_cli.preprocess import mistral3, pixtral
from vcache_cli.preprocess.pixtral import PixtralFamily
from vcache_cli.preprocess.varied_size import whole_patches

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore"),  # the servers' libraries warn of much
]

IMAGE = {
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_processor_type": "PixtralImageProcessor",
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "patch_size": {"height": 16, "width": 16},
    "processor_class": "PixtralProcessor",
    "resample": 3,
    "rescale_factor": 0.00392156862745098,
    "size": {"longest_edge": 1024},
}
"""As pixtral-12b has it."""
NULLS = dict.fromkeys(
    ("crop_size", "do_center_crop", "device", "input_data_format", "return_tensors")
)
SMALL_3_1 = IMAGE | NULLS | {
    "data_format": "channels_first",
    "default_to_square": True,
    "patch_size": {"height": 14, "width": 14},
    "size": {"longest_edge": 1540},
}  # fmt: skip
"""As Mistral-Small-3.1 has it."""
MARKS = {
    "image_break_token": "[IMG_BREAK]",
    "image_end_token": "[IMG_END]",
    "image_token": "[IMG]",
    "processor_class": "PixtralProcessor",
}


@dataclass(frozen=True)
class Variant:
    """The JSON files of a checkpoint."""

    family: PixtralFamily
    image: dict[str, Any]
    processor: dict[str, Any]
    config: dict[str, Any]


PIXTRAL = {"model_type": "pixtral", "vision_config": {"model_type": "pixtral", "patch_size": 16}}
MISTRAL = {
    "model_type": "mistral3",
    "spatial_merge_size": 2,
    "vision_config": {"model_type": "pixtral", "patch_size": 14},
}
VARIANTS = {
    "published": Variant(pixtral.FAMILY, IMAGE, MARKS | {"patch_size": 16}, PIXTRAL),
    "only-its-name": Variant(
        pixtral.FAMILY, {"image_processor_type": "PixtralImageProcessor"}, MARKS, PIXTRAL
    ),
    "fast-oblong-bilinear": Variant(
        pixtral.FAMILY,
        IMAGE | {
            "image_processor_type": "PixtralImageProcessorFast",
            "size": {"height": 100, "width": 300}, "resample": 2, "do_normalize": False,
        },
        MARKS | {"patch_size": 8},
        PIXTRAL,
    ),
    "size-int-no-rescale": Variant(
        pixtral.FAMILY, IMAGE | {"size": 90, "do_rescale": None}, MARKS, PIXTRAL
    ),
    "no-resize": Variant(pixtral.FAMILY, IMAGE | {"do_resize": None, "size": None}, MARKS, PIXTRAL),
    "small-3.1": Variant(
        mistral3.FAMILY, SMALL_3_1, MARKS | {"patch_size": 14, "spatial_merge_size": 2}, MISTRAL
    ),
    "small-3.1-nested": Variant(
        mistral3.FAMILY,
        IMAGE,
        MARKS | {
            "patch_size": 14, "spatial_merge_size": 2,
            "image_processor": SMALL_3_1 | {"size": {"longest_edge": 200}},
        },
        MISTRAL,
    ),
    "without-merge": Variant(
        mistral3.FAMILY, SMALL_3_1 | {"size": {"longest_edge": 200}}, MARKS, MISTRAL
    ),
    "from-the-image-processor": Variant(
        mistral3.FAMILY,
        SMALL_3_1 | {"size": {"longest_edge": 200}},
        MARKS | {"patch_size": 10, "spatial_merge_size": 3},
        {"model_type": "mistral3", "vision_config": {"model_type": "pixtral"}},
    ),
}  # fmt: skip


WITH_ALL = ("published", "small-3.1-nested")
"""Variants that meet every fixture; the others a part."""


class WithoutTorch:
    """What transformers' processor, which needs torch, does to the pictures of a request."""

    def __init__(self, folder: Path, processor: dict[str, Any]) -> None:
        transformers = import_module("transformers")
        self.image_processor = transformers.PixtralImageProcessorPil.from_pretrained(folder)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.patch_size = processor.get("patch_size", 16)
        self.merge = processor.get("spatial_merge_size", 1)

    def __call__(
        self, images: Sequence[Sequence[Image.Image]], text: Sequence[str]
    ) -> dict[str, NDArray[Any]]:
        """Pixels, and as many of its tokens as the processor would write."""
        side = self.patch_size * self.merge
        found = dict(self.image_processor(images, patch_size=side))
        sizes = np.asarray(found["image_sizes"])
        number = self.tokenizer.convert_tokens_to_ids("[IMG]")
        count = sum((height // side) * (width // side) for height, width in sizes)
        pixels = np.asarray(found["pixel_values"])
        return {"pixel_values": pixels, "image_sizes": sizes, "input_ids": np.full(count, number)}


def make(folder: Path, variant: str, profile: str) -> tuple[Server, Path]:
    """The server's processor of a model folder."""
    found = VARIANTS[variant]
    model_folder(
        folder,
        "[IMG]",
        config=found.config,
        preprocessor_config=found.image,
        processor_config=found.processor,
    )
    if ALL_PROFILES[profile].processors == "transformers":
        return Server(
            ALL_PROFILES[profile], WithoutTorch(folder, found.processor), "[IMG]", "[IMG]"
        ), folder
    name = {"pixtral": "Pixtral", "mistral3": "Mistral3"}[found.family.name]
    module = f"mlx_vlm.models.{found.family.name}.processing_{found.family.name}"
    loaded = pytest.importorskip(module, exc_type=ImportError)
    processor = getattr(loaded, f"{name}Processor").from_pretrained(folder)
    return Server(ALL_PROFILES[profile], processor, "[IMG]", "[IMG]"), folder


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_pixels_and_tokens_equal_those_of_the_processor(
    variant: str, profile: str, tmp_path: Path, fixtures: Fixtures, tally: Tally
) -> None:
    server, folder = make(tmp_path, variant, profile)
    family = VARIANTS[variant].family
    prepare = ours(family, folder, server.profile)
    step = 1 if variant in WITH_ALL else 5
    assert compare_pictures(server, prepare, fixtures, (tally, family.name), step=step) == {}


@pytest.mark.parametrize("profile", ALL_PROFILES)
@pytest.mark.parametrize("variant", ["published", "small-3.1"])
def test_a_request_equals_that_of_the_processor(
    variant: str, profile: str, tmp_path: Path, fixtures: Fixtures, tally: Tally
) -> None:
    server, folder = make(tmp_path, variant, profile)
    family = VARIANTS[variant].family
    prepare = ours(family, folder, server.profile)
    assert compare_request(server, prepare, fixtures, (tally, family.name)) == {}


@pytest.mark.parametrize(("longest", "side"), [(1024, 16), (1540, 28)])
def test_sizes_are_those_of_both_servers(longest: int, side: int, tally: Tally) -> None:
    """600 x 600 sizes."""
    transformers = import_module("transformers.models.pixtral.image_processing_pil_pixtral")
    mlx_vlm = pytest.importorskip(
        "mlx_vlm.models.pixtral.image_processing_pixtral", exc_type=ImportError
    )
    level = np.zeros(1, np.uint8)
    limits = {"height": longest, "width": longest}
    wrong = []
    for height, width in product(range(1, 1801, 3), repeat=2):
        size = whole_patches(height, width, max_size=limits, patch_size=side)
        picture = np.broadcast_to(level, (3, height, width))
        theirs = transformers.get_resize_output_image_size(
            picture, longest, side, input_data_format="channels_first"
        )
        if {theirs, mlx_vlm.get_resize_output_image_size((height, width), longest, side)} != {size}:
            wrong.append((height, width))
    tally.add("both", "pixtral sizes", f"{longest}", differing=len(wrong), values=360_000)
    assert wrong == []
