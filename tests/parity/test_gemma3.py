"""Gemma 3's pixels and crops against both servers' own processors, bit for bit."""

from __future__ import annotations

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
from vcache_cli.errors import EncodeError
from vcache_cli.preprocess import gemma3
from vcache_cli.preprocess.pan_and_scan import Box, crop_boxes

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore"),  # the servers' libraries warn of much
]

PUBLISHED = {
    "do_convert_rgb": None,
    "do_normalize": True,
    "do_pan_and_scan": None,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_processor_type": "Gemma3ImageProcessor",
    "image_seq_length": 256,
    "image_std": [0.5, 0.5, 0.5],
    "pan_and_scan_max_num_crops": None,
    "pan_and_scan_min_crop_size": None,
    "pan_and_scan_min_ratio_to_activate": None,
    "processor_class": "Gemma3Processor",
    "resample": 2,
    "rescale_factor": 0.00392156862745098,
    "size": {"height": 896, "width": 896},
}
"""As the checkpoints of 4, 12 and 27 billion have it."""
SMALL = PUBLISHED | {"size": {"height": 56, "width": 56}}
SCAN = {
    "do_pan_and_scan": True,
    "pan_and_scan_max_num_crops": 4,
    "pan_and_scan_min_crop_size": 256,
    "pan_and_scan_min_ratio_to_activate": 1.2,
}
FINE = {
    "do_pan_and_scan": True,
    "pan_and_scan_max_num_crops": 9,
    "pan_and_scan_min_crop_size": 3,
    "pan_and_scan_min_ratio_to_activate": 1.01,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "published": PUBLISHED,
    "only-its-name": {"image_processor_type": "Gemma3ImageProcessor"},
    "fast-bicubic-int": SMALL | {
        "image_processor_type": "Gemma3ImageProcessorFast", "size": 56, "resample": 3,
        "do_pad": True, "do_convert_rgb": True,
    },
    "pan-and-scan": SMALL | SCAN,
    "pan-and-scan-fine": SMALL | FINE | {"image_mean": [0.4, 0.5, 0.6], "do_convert_rgb": True},
    "no-normalise": SMALL | {"do_normalize": None},
}  # fmt: skip
WITH_ALL = ("fast-bicubic-int", "pan-and-scan")
"""Variants that meet every fixture; the others a part."""
PROCESSORS = {
    "transformers": "transformers",
    "mlx-vlm": "mlx_vlm.models.gemma3.processing_gemma3",
}


def make(folder: Path, variant: str, profile: str) -> tuple[Server, Path]:
    """The server's processor of a model folder."""
    found = VARIANTS[variant]
    side = found.get("size", 224)
    side = side if isinstance(side, int) else side["height"]
    patch = 14
    pooled = 16 if side == 896 else 4
    vision = {"model_type": "siglip_vision_model", "image_size": side, "patch_size": patch}
    text = {"mm_tokens_per_image": pooled**2}
    config = {"model_type": "gemma3", "vision_config": vision, "text_config": text} | text
    model_folder(
        folder,
        "<image>",
        config=config,
        preprocessor_config=found,
        processor_config={"image_seq_length": pooled**2, "processor_class": "Gemma3Processor"},
    )
    module = pytest.importorskip(PROCESSORS[ALL_PROFILES[profile].processors], exc_type=ImportError)
    processor = module.Gemma3Processor.from_pretrained(folder)
    return Server(ALL_PROFILES[profile], processor, "<boi>", "<image>"), folder


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_pixels_and_tokens_equal_those_of_the_processor(
    variant: str, profile: str, tmp_path: Path, fixtures: Fixtures, tally: Tally
) -> None:
    server, folder = make(tmp_path, variant, profile)
    prepare = ours(gemma3.FAMILY, folder, server.profile)
    step = 1 if variant in WITH_ALL else 12 if variant == "published" else 5
    assert compare_pictures(server, prepare, fixtures, (tally, "gemma3"), step=step) == {}


@pytest.mark.parametrize("profile", ALL_PROFILES)
@pytest.mark.parametrize("variant", ["published", "fast-bicubic-int", "pan-and-scan"])
def test_a_request_equals_that_of_the_processor(
    variant: str, profile: str, tmp_path: Path, fixtures: Fixtures, tally: Tally
) -> None:
    server, folder = make(tmp_path, variant, profile)
    prepare = ours(gemma3.FAMILY, folder, server.profile)
    assert compare_request(server, prepare, fixtures, (tally, "gemma3")) == {}


@pytest.mark.parametrize(
    ("scan", "sizes"),
    [(SCAN, range(1, 1801, 3)), (FINE, range(1, 250))],
    ids=["published", "fine"],
)
def test_crops_lie_where_the_servers_lie(scan: dict[str, Any], sizes: range, tally: Tally) -> None:
    """600 x 600 sizes, and 62,001; where a crop is empty, the server fails and so do we."""
    server = import_module("transformers").Gemma3ImageProcessorPil()
    crops, side, ratio = (value for name, value in scan.items() if name != "do_pan_and_scan")
    limits = {"min_crop_size": side, "max_num_crops": crops, "min_ratio": ratio}
    base = np.zeros((1, sizes[-1], sizes[-1]), np.uint8)
    wrong = []
    for height, width in product(sizes, sizes):
        found = server.pan_and_scan(base[:, :height, :width], side, crops, ratio)
        whole = all(crop.size for crop in found)
        theirs = [box_of(crop, base) for crop in found] if whole else None
        try:
            mine: list[Box] | None = crop_boxes(height, width, **limits)
        except EncodeError:
            mine = None
        if mine != theirs:
            wrong.append((height, width))
    cases = len(sizes) ** 2
    tally.add("transformers-pil-5", "gemma3 crops", "sizes", differing=len(wrong), values=cases)
    assert wrong == []


def box_of(crop: NDArray[np.uint8], base: NDArray[np.uint8]) -> Box:
    """Where a view lies in what it is a view of."""
    top, left = divmod(crop.ctypes.data - base.ctypes.data, base.shape[2])
    return top, top + crop.shape[1], left, left + crop.shape[2]
