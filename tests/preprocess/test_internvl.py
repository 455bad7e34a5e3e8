"""InternVL: settings, grids, and the hashes that catch a forgotten revision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.digest import digest_bytes
from vcache_cli.errors import ModelError
from vcache_cli.items import Frames
from vcache_cli.preprocess import family_name
from vcache_cli.preprocess.internvl import FAMILY, internvl_plan
from vcache_cli.preprocess.profiles import MLX_VLM_0_7, OMLX, TRANSFORMERS_PIL_5

PROFILES = {each.name: each for each in (TRANSFORMERS_PIL_5, MLX_VLM_0_7, OMLX)}
HF = {
    "model_type": "internvl",
    "downsample_ratio": 0.5,
    "vision_config": {"image_size": [448, 448], "patch_size": [14, 14]},
}
CHAT = {
    "model_type": "internvl_chat",
    "downsample_ratio": 0.5,
    "force_image_size": 448,
    "max_dynamic_patch": 6,
    "use_thumbnail": False,
    "vision_config": {"image_size": 896, "patch_size": 14},
}
FOUND = {
    "image_processor_type": "GotOcr2ImageProcessorFast",
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
    "crop_to_patches": False,
    "size": {"height": 448, "width": 448},
}


@pytest.fixture
def resolve(tmp_path: Path) -> Any:  # noqa: ANN401  a function with defaults
    def resolved(
        found: dict[str, Any] | None = None,
        config: dict[str, Any] | None = None,
        profile: str = "transformers-pil-5",
        **processor: Any,  # noqa: ANN401  JSON values
    ) -> dict[str, Any]:
        (tmp_path / "config.json").write_text(json.dumps(config or HF))
        (tmp_path / "processor_config.json").write_text(json.dumps(processor))
        if found is not None:
            (tmp_path / "preprocessor_config.json").write_text(json.dumps(found))
        return FAMILY.resolve(open_checkpoint(str(tmp_path)), PROFILES[profile])

    return resolved


def test_transformers_reads_the_image_processor_and_always_cuts(resolve: Any) -> None:  # noqa: ANN401
    assert resolve(FOUND) == {
        "batch_axis": False,
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "grid": "more-tiles",
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
        "max_tiles": 12,
        "min_tiles": 1,
        "overview": True,
        "pixel_mask": False,
        "resample": 3,
        "rescale_factor": 1 / 255,
        "tile": {"height": 448, "width": 448},
        "tile_tokens": 256,
    }


def test_mlx_vlm_reads_the_configuration_alone(resolve: Any) -> None:  # noqa: ANN401
    ignored = {"image_mean": [0.5] * 3, "size": {"height": 96, "width": 96}, "max_patches": 3}
    settings = resolve(ignored, HF, "mlx-vlm-0.7")
    assert settings == resolve(None, HF, "omlx")
    assert settings["image_mean"] == [0.485, 0.456, 0.406]
    assert settings["arithmetic"] == "divide-f32"
    assert settings["grid"] == "closest-area"
    assert settings["batch_axis"]
    assert settings["tile"] == {"height": 448, "width": 448}
    assert (settings["max_tiles"], settings["overview"]) == (12, True)


def test_the_layout_of_its_makers_has_limits_of_its_own(resolve: Any) -> None:  # noqa: ANN401
    settings = resolve(None, CHAT, "mlx-vlm-0.7")
    assert settings["tile"] == {"height": 448, "width": 448}
    assert (settings["max_tiles"], settings["overview"]) == (6, False)
    over = resolve(None, CHAT, "mlx-vlm-0.7", image_size=224)
    assert (over["tile"]["width"], over["tile_tokens"]) == (224, 64)
    plain = {name: value for name, value in CHAT.items() if name != "force_image_size"}
    assert resolve(None, plain, "mlx-vlm-0.7")["tile"]["width"] == 896
    assert family_name(CHAT, known=("internvl", "clip")) == "internvl"


REFUSED: dict[str, tuple[dict[str, Any] | None, dict[str, Any], str, str]] = {
    "makers-layout": (
        {"feature_extractor_type": "CLIPFeatureExtractor"},
        *(CHAT, "transformers-pil-5", "expected `GotOcr2ImageProcessor`"),
    ),
    "no-settings": (None, HF, "transformers-pil-5", r"expected preprocessor_config\.json"),
    "one-edge": (
        FOUND | {"size": {"shortest_edge": 9}},
        *(HF, "transformers-pil-5", "`size`: expected height and width"),
    ),
    "null-size": (FOUND | {"size": None}, HF, "transformers-pil-5", "`size`"),
    "as-it-is": (
        FOUND | {"do_resize": False, "max_patches": 1},
        *(HF, "transformers-pil-5", "`max_patches` 1"),
    ),
    "many": (FOUND | {"max_patches": 10**9}, HF, "transformers-pil-5", "`max_patches`"),
    "none": (FOUND | {"min_patches": 0}, HF, "transformers-pil-5", "`min_patches`"),
    "mlx-null": (None, CHAT | {"max_dynamic_patch": None}, "mlx-vlm-0.7", "`max_dynamic_patch`"),
    "mlx-oblong": (
        None,
        *(CHAT | {"force_image_size": [448, 448]}, "mlx-vlm-0.7", "expected one side"),
    ),
    "ratio": (FOUND, HF | {"downsample_ratio": 2}, "transformers-pil-5", "`downsample_ratio`"),
    "uneven": (FOUND | {"size": 462}, HF, "transformers-pil-5", "cannot be brought down"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_settings_that_cannot_be_followed_are_refused(case: str, resolve: Any) -> None:  # noqa: ANN401
    found, config, profile, reason = REFUSED[case]
    with pytest.raises(ModelError, match=reason):
        resolve(found, config, profile)


def plan_settings(grid: str, **changes: Any) -> dict[str, Any]:  # noqa: ANN401  JSON values
    tile = {"height": 448, "width": 448}
    limits = {"min_tiles": 1, "max_tiles": 12}
    return {"tile": tile, **limits, "overview": True, "grid": grid, **changes}


@pytest.mark.parametrize(
    ("width", "height", "hf", "mlx"),
    [
        (704, 704, 4, 1),
        (960, 960, 9, 4),
        (1280, 640, 8, 2),
        (448, 448, 1, 1),
        (640, 480, 12, 12),
    ],
)
def test_servers_disagree_where_two_grids_are_equally_near(
    width: int, height: int, hf: int, mlx: int
) -> None:
    found = [
        internvl_plan(plan_settings(grid), height, width) for grid in ("more-tiles", "closest-area")
    ]
    assert [plan.rows * plan.columns for plan in found] == [hf, mlx]


@given(
    st.sampled_from(["more-tiles", "closest-area"]),
    *(st.integers(1, 4000), st.integers(1, 4000), st.integers(1, 6), st.integers(6, 40)),
)
def test_grids_keep_the_limits(grid: str, width: int, height: int, fewest: int, most: int) -> None:
    plan = internvl_plan(plan_settings(grid, min_tiles=fewest, max_tiles=most), height, width)
    assert fewest <= plan.rows * plan.columns <= most
    assert plan.resizes == ((448 * plan.rows, 448 * plan.columns),)
    assert plan.num_tiles == plan.rows * plan.columns + (plan.rows * plan.columns > 1)


GOLDEN: dict[tuple[str, int, str, int], dict[tuple[int, int], str]] = {
    ("transformers-pil-5", 1, "internvl", 1): {
        (1, 1): "4d8ea6d83e6ff746",
        (10, 200): "cef205e74f12fd6c",
        (333, 777): "f11be634163dc942",
        (80, 80): "69deb61d9edc68ad",
        (640, 481): "d9b3d65736d0e6ec",
    },
    ("mlx-vlm-0.7", 1, "internvl", 1): {
        (1, 1): "4d8ea6d83e6ff746",
        (10, 200): "cef205e74f12fd6c",
        (333, 777): "f11be634163dc942",
        (80, 80): "08daf2475e85afa5",
        (640, 481): "d9b3d65736d0e6ec",
    },
}
"""By profile, its revision, family and its revision."""


def picture(width: int, height: int) -> Frames:
    """Levels by arithmetic alone, so that no library's version reaches them."""
    row, column = np.indices((height, width), np.uint32)
    parts = (row * 7 + column * 3, row * column, (row ^ column) * 5)
    return Frames(np.stack([part % 256 for part in parts], axis=2).astype(np.uint8)[np.newaxis])


@pytest.mark.parametrize("profile", ["transformers-pil-5", "mlx-vlm-0.7"])
def test_pixels_are_those_of_this_revision(profile: str, resolve: Any) -> None:  # noqa: ANN401
    """Other hashes mean other bytes on disk: bump the revision, then take the new hashes."""
    config = HF | {"vision_config": {"image_size": [56, 56], "patch_size": [14, 14]}}
    settings = resolve(FOUND | {"size": {"height": 56, "width": 56}}, config, profile)
    made = FAMILY.preprocessor(settings, PROFILES[profile])
    revisions = (profile, PROFILES[profile].revision, FAMILY.name, FAMILY.revision)
    assert GOLDEN[revisions] == {
        size: digest_bytes(made(picture(*size)).tensors["pixel_values"].astype("<f4").tobytes())[
            :16
        ]
        for size in ((1, 1), (10, 200), (333, 777), (80, 80), (640, 481))
    }
