"""Idefics 3 and SmolVLM: settings, sizes, and the hashes that catch a forgotten revision."""

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
from vcache_cli.errors import EncodeError, ModelError
from vcache_cli.items import Frames
from vcache_cli.preprocess import idefics3, smolvlm
from vcache_cli.preprocess.idefics3 import idefics3_plan
from vcache_cli.preprocess.profiles import MLX_VLM_0_7, TRANSFORMERS_PIL_5

FAMILIES: dict[str, idefics3.Idefics3Family] = {
    each.FAMILY.name: each.FAMILY for each in (idefics3, smolvlm)
}
PROFILES = {each.name: each for each in (TRANSFORMERS_PIL_5, MLX_VLM_0_7)}
CONFIG = {"model_type": "idefics3", "scale_factor": 2, "vision_config": {"patch_size": 14}}


@pytest.fixture
def resolve(tmp_path: Path) -> Any:  # noqa: ANN401  a function with defaults
    def resolved(
        found: dict[str, Any] | None = None,
        config: dict[str, Any] | None = None,
        name: str = "idefics3",
        profile: str = "transformers-pil-5",
    ) -> dict[str, Any]:
        (tmp_path / "config.json").write_text(json.dumps(CONFIG if config is None else config))
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(found or {"x": 1}))
        return FAMILIES[name].resolve(open_checkpoint(str(tmp_path)), PROFILES[profile])

    return resolved


def test_what_is_not_said_is_the_servers_default(resolve: Any) -> None:  # noqa: ANN401
    assert resolve() == {
        "batch_axis": True,
        "do_convert_rgb": True,
        "do_image_splitting": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "pixel_mask": True,
        "resample": 1,
        "rescale_factor": 1 / 255,
        "size": {"longest_edge": 1456},
        "tile": {"height": 364, "width": 364},
        "tile_tokens": 169,
    }


PUBLISHED = {
    "SmolVLM-Instruct": ("idefics3", 384, 1536, 14, 3, 81),
    "SmolVLM-256M-Instruct": ("idefics3", 512, 2048, 16, 4, 64),
    "SmolVLM2-2.2B-Instruct": ("smolvlm", 384, 1536, 14, 3, 81),
    "SmolVLM2-500M-Video-Instruct": ("smolvlm", 512, 2048, 16, 4, 64),
}


@pytest.mark.parametrize("model", PUBLISHED)
def test_a_tile_of_a_published_model_has_its_tokens(model: str, resolve: Any) -> None:  # noqa: ANN401
    name, side, longest, patch, scale, tokens = PUBLISHED[model]
    config = {"model_type": name, "scale_factor": scale, "vision_config": {"patch_size": patch}}
    sizes = {"max_image_size": {"longest_edge": side}, "size": {"longest_edge": longest}}
    settings = resolve(sizes, config, name)
    assert settings["tile_tokens"] == tokens
    made = FAMILIES[name].preprocessor(settings, TRANSFORMERS_PIL_5)
    assert made.num_tokens(640, 480) == 13 * tokens
    assert made.num_tokens(512, 512) == 17 * tokens


def test_a_null_switches_off_and_an_unnamed_filter_is_bilinear(resolve: Any) -> None:  # noqa: ANN401
    steps = ("do_resize", "do_image_splitting", "do_pad", "do_convert_rgb", "resample", "size")
    settings = resolve(dict.fromkeys(steps))
    assert not any(settings[step] for step in ("do_resize", "do_image_splitting", "pixel_mask"))
    assert settings["resample"] == 2
    assert "size" not in settings


@pytest.mark.parametrize(("profile", "side"), [("transformers-pil-5", 32), ("mlx-vlm-0.7", 14)])
def test_the_patch_that_is_not_said_is_the_servers(
    profile: str,
    side: int,
    resolve: Any,  # noqa: ANN401
) -> None:
    config = {"model_type": "smolvlm", "vision_config": {}}
    found = {"max_image_size": {"longest_edge": 448}}
    assert resolve(found, config, "smolvlm", profile)["tile_tokens"] == (448 // side // 2) ** 2


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ({"longest_edge": 96}, {"longest_edge": 96}),
        ({"shortest_edge": 1, "longest_edge": 96}, {"longest_edge": 96}),
        ({"height": 70, "width": 96}, {"height": 70, "width": 96}),
        (96, {"height": 96, "width": 96}),
        ([70, 96], {"height": 70, "width": 96}),
    ],
)
def test_sizes_in_all_spellings(size: object, expected: dict[str, int], resolve: Any) -> None:  # noqa: ANN401
    assert resolve({"size": size})["size"] == expected


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "shortest-edge": ({"size": {"shortest_edge": 9}}, "`size`: expected longest_edge"),
    "null-size": ({"size": None}, "`size`"),
    "not-square": ({"size": 9, "default_to_square": False}, "`size`"),
    "zero-edge": ({"size": {"longest_edge": 0}}, r"`size\.longest_edge`"),
    "tile-int": ({"max_image_size": 512}, "`max_image_size`: expected longest_edge"),
    "tile-null": ({"max_image_size": None}, "`max_image_size`"),
    "tile-other": ({"max_image_size": {"height": 3}}, r"`max_image_size\.longest_edge`"),
    "tile-uneven": ({"max_image_size": {"longest_edge": 378}}, "`scale_factor` 2"),
    "null-filter": ({"resample": None}, "`resample`"),
    "raw": ({"do_rescale": None, "do_normalize": None}, "both off"),
    "another": ({"image_processor_type": "CLIPImageProcessor"}, "expected `Idefics3Image"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_settings_that_cannot_be_followed_are_refused(case: str, resolve: Any) -> None:  # noqa: ANN401
    found, reason = REFUSED[case]
    with pytest.raises(ModelError, match=reason):
        resolve(found)


def plan_settings(side: int, **changes: Any) -> dict[str, Any]:  # noqa: ANN401  JSON values
    tile = {"height": side, "width": side}
    return {"do_resize": True, "do_image_splitting": True, "tile": tile, **changes}


SIZES = st.integers(1, 3000)


@given(SIZES, SIZES, st.integers(1, 5000), st.integers(1, 600))
def test_tiles_fill_what_is_cut(height: int, width: int, longest: int, side: int) -> None:
    plan = idefics3_plan(plan_settings(side, size={"longest_edge": longest}), height, width)
    first, second = plan.resizes
    assert second == (plan.rows * side, plan.columns * side)
    assert max(first) <= max(min(longest, 4096), min(longest, 4096) + 1)
    assert min(first) >= 1
    assert plan.overview == ("canvas" if plan.rows * plan.columns > 1 else "")


@given(SIZES, SIZES)
def test_without_splitting_a_picture_is_one_tile(height: int, width: int) -> None:
    settings = plan_settings(32, size={"longest_edge": 96}, do_image_splitting=False)
    assert idefics3_plan(settings, height, width).num_tiles == 1


def test_a_side_that_the_server_rounds_to_nothing_is_refused(resolve: Any) -> None:  # noqa: ANN401
    settings = resolve({"do_resize": False, "max_image_size": {"longest_edge": 56}})
    made = FAMILIES["idefics3"].preprocessor(settings, TRANSFORMERS_PIL_5)
    heights = [h for h in range(56, 6000, 56) if 0 in idefics3_plan(settings, h, 1).resizes[0]]
    assert heights
    with pytest.raises(EncodeError, match="would become 0 x"):
        made.num_tokens(1, heights[0])


GOLDEN: dict[tuple[str, int, str, int], dict[tuple[int, int], str]] = {
    ("transformers-pil-5", 1, "idefics3", 1): {
        (1, 1): "1f7869613d3eb22a",
        (10, 200): "e77ffe03d52edae2",
        (333, 777): "f54f39ddce48fc74",
        (224, 224): "a25e8a76ca3b9427",
        (640, 481): "bb68cc5e3d383a5b",
    },
    ("mlx-vlm-0.7", 1, "idefics3", 1): {
        (1, 1): "1f7869613d3eb22a",
        (10, 200): "e77ffe03d52edae2",
        (333, 777): "f54f39ddce48fc74",
        (224, 224): "a25e8a76ca3b9427",
        (640, 481): "bb68cc5e3d383a5b",
    },
    ("transformers-pil-5", 1, "smolvlm", 1): {
        (1, 1): "1f7869613d3eb22a",
        (10, 200): "e77ffe03d52edae2",
        (333, 777): "f54f39ddce48fc74",
        (224, 224): "a25e8a76ca3b9427",
        (640, 481): "bb68cc5e3d383a5b",
    },
    ("mlx-vlm-0.7", 1, "smolvlm", 1): {
        (1, 1): "1f7869613d3eb22a",
        (10, 200): "e77ffe03d52edae2",
        (333, 777): "f54f39ddce48fc74",
        (224, 224): "a25e8a76ca3b9427",
        (640, 481): "bb68cc5e3d383a5b",
    },
}
"""By profile, its revision, family and its revision."""


def picture(width: int, height: int) -> Frames:
    """Levels by arithmetic alone, so that no library's version reaches them."""
    row, column = np.indices((height, width), np.uint32)
    parts = (row * 7 + column * 3, row * column, (row ^ column) * 5)
    return Frames(np.stack([part % 256 for part in parts], axis=2).astype(np.uint8)[np.newaxis])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", FAMILIES)
def test_pixels_are_those_of_this_revision(name: str, profile: str, resolve: Any) -> None:  # noqa: ANN401
    """Other hashes mean other bytes on disk: bump the revision, then take the new hashes."""
    config = {"model_type": name, "vision_config": {"patch_size": 14}}
    found = {"max_image_size": {"longest_edge": 56}, "size": {"longest_edge": 224}}
    settings = resolve(found, config, name, profile)
    made = FAMILIES[name].preprocessor(settings, PROFILES[profile])
    revisions = (profile, PROFILES[profile].revision, name, FAMILIES[name].revision)
    assert GOLDEN[revisions] == {
        size: digest_bytes(made(picture(*size)).tensors["pixel_values"].astype("<f4").tobytes())[
            :16
        ]
        for size in ((1, 1), (10, 200), (333, 777), (224, 224), (640, 481))
    }
