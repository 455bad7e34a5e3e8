"""Patches of a grid: sizes, order, and the hashes that catch a forgotten revision."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.digest import digest_bytes
from vcache_cli.errors import EncodeError, ModelError
from vcache_cli.items import Frames
from vcache_cli.preprocess import family_name, qwen2_5_vl, qwen2_vl, qwen3_5, qwen3_vl
from vcache_cli.preprocess.geometry import grid_size
from vcache_cli.preprocess.patches import PatchFamily, PatchPreprocessor
from vcache_cli.preprocess.profiles import MLX_VLM_0_7, OMLX, TRANSFORMERS_PIL_5
from vcache_cli.profile import Profile

FAMILIES: dict[str, PatchFamily] = {
    each.FAMILY.name: each.FAMILY for each in (qwen2_vl, qwen2_5_vl, qwen3_vl, qwen3_5)
}
PROFILES = {each.name: each for each in (TRANSFORMERS_PIL_5, MLX_VLM_0_7, OMLX)}
TYPE = {"image_processor_type": "Qwen2VLImageProcessor"}
SIZES = ((1, 1), (10, 200), (333, 777), (112, 112), (640, 481))


def resolved(folder: Path, name: str, profile: Profile, **found: Any) -> dict[str, Any]:  # noqa: ANN401
    (folder / "config.json").write_text(json.dumps({"model_type": name}))
    (folder / "preprocessor_config.json").write_text(json.dumps({**TYPE, **found}))
    return FAMILIES[name].resolve(open_checkpoint(str(folder)), profile)


def preprocessor(folder: Path, name: str, profile: Profile, **found: Any) -> PatchPreprocessor:  # noqa: ANN401
    return FAMILIES[name].preprocessor(resolved(folder, name, profile, **found), profile)


def small(**changes: Any) -> PatchPreprocessor:  # noqa: ANN401  JSON values
    """A grid so fine that small pictures have many patches, and levels that stay whole numbers."""
    settings = {
        "do_convert_rgb": True,
        "do_normalize": False,
        "do_rescale": False,
        "do_resize": False,
        "merge_size": 2,
        "patch_size": 2,
        "temporal_patch_size": 2,
        "resample": 3,
        "min_pixels": 64,
        "max_pixels": 1024,
        **changes,
    }
    return qwen2_vl.FAMILY.preprocessor(settings, TRANSFORMERS_PIL_5)


def picture(width: int, height: int) -> Frames:
    """Levels by arithmetic alone, so that no library's version reaches them."""
    row, column = np.indices((height, width), np.uint32)
    parts = (row * 7 + column * 3, row * column, (row ^ column) * 5)
    return Frames(np.stack([part % 256 for part in parts], axis=2).astype(np.uint8)[np.newaxis])


GOLDEN: dict[tuple[str, int, str, int], dict[tuple[int, int], str]] = {
    ("transformers-pil-5", 1, "qwen2_vl", 1): {
        (1, 1): "b15f61ca73190035",
        (10, 200): "baf3575159f0c6f1",
        (333, 777): "ad58a27cc60a525e",
        (112, 112): "229d5c9afc8252ed",
        (640, 481): "cfad774daffb6370",
    },
    ("transformers-pil-5", 1, "qwen2_5_vl", 1): {
        (1, 1): "b15f61ca73190035",
        (10, 200): "baf3575159f0c6f1",
        (333, 777): "ad58a27cc60a525e",
        (112, 112): "229d5c9afc8252ed",
        (640, 481): "cfad774daffb6370",
    },
    ("transformers-pil-5", 1, "qwen3_vl", 1): {
        (1, 1): "b15f61ca73190035",
        (10, 200): "baf3575159f0c6f1",
        (333, 777): "ad58a27cc60a525e",
        (112, 112): "229d5c9afc8252ed",
        (640, 481): "cfad774daffb6370",
    },
    ("transformers-pil-5", 1, "qwen3_5", 1): {
        (1, 1): "b15f61ca73190035",
        (10, 200): "baf3575159f0c6f1",
        (333, 777): "ad58a27cc60a525e",
        (112, 112): "229d5c9afc8252ed",
        (640, 481): "cfad774daffb6370",
    },
    ("mlx-vlm-0.7", 1, "qwen2_vl", 1): {
        (1, 1): "c2c03b8d931c5a8d",
        (10, 200): "2161075d1ab30d95",
        (333, 777): "741f717b9aa49db4",
        (112, 112): "69921d3e5f16ca57",
        (640, 481): "167ec8d9f46846eb",
    },
    ("mlx-vlm-0.7", 1, "qwen2_5_vl", 1): {
        (1, 1): "c2c03b8d931c5a8d",
        (10, 200): "2161075d1ab30d95",
        (333, 777): "741f717b9aa49db4",
        (112, 112): "69921d3e5f16ca57",
        (640, 481): "167ec8d9f46846eb",
    },
    ("mlx-vlm-0.7", 1, "qwen3_vl", 1): {
        (1, 1): "391a1dc0c23f7eb2",
        (10, 200): "2ea0bc86b1893774",
        (333, 777): "09397c4adc5468b6",
        (112, 112): "d6e3afd2ff4c3f6e",
        (640, 481): "aa9fab465138d4e9",
    },
    ("mlx-vlm-0.7", 1, "qwen3_5", 1): {
        (1, 1): "391a1dc0c23f7eb2",
        (10, 200): "2ea0bc86b1893774",
        (333, 777): "09397c4adc5468b6",
        (112, 112): "d6e3afd2ff4c3f6e",
        (640, 481): "aa9fab465138d4e9",
    },
    ("omlx", 1, "qwen2_vl", 1): {
        (1, 1): "c2c03b8d931c5a8d",
        (10, 200): "2161075d1ab30d95",
        (333, 777): "741f717b9aa49db4",
        (112, 112): "69921d3e5f16ca57",
        (640, 481): "167ec8d9f46846eb",
    },
    ("omlx", 1, "qwen2_5_vl", 1): {
        (1, 1): "c2c03b8d931c5a8d",
        (10, 200): "2161075d1ab30d95",
        (333, 777): "741f717b9aa49db4",
        (112, 112): "69921d3e5f16ca57",
        (640, 481): "167ec8d9f46846eb",
    },
    ("omlx", 1, "qwen3_vl", 1): {
        (1, 1): "391a1dc0c23f7eb2",
        (10, 200): "2ea0bc86b1893774",
        (333, 777): "09397c4adc5468b6",
        (112, 112): "d6e3afd2ff4c3f6e",
        (640, 481): "aa9fab465138d4e9",
    },
    ("omlx", 1, "qwen3_5", 1): {
        (1, 1): "391a1dc0c23f7eb2",
        (10, 200): "2ea0bc86b1893774",
        (333, 777): "09397c4adc5468b6",
        (112, 112): "d6e3afd2ff4c3f6e",
        (640, 481): "aa9fab465138d4e9",
    },
}
"""By profile, its revision, family and its revision."""


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("rules", PROFILES)
def test_pixels_are_those_of_this_revision(rules: str, name: str, tmp_path: Path) -> None:
    """Other hashes mean other bytes on disk: bump the revision, then take the new hashes."""
    profile, family = PROFILES[rules], FAMILIES[name]
    made = preprocessor(tmp_path, name, profile)
    found = {
        size: digest_bytes(made(picture(*size)).tensors["pixel_values"].astype("<f4").tobytes())[
            :16
        ]
        for size in SIZES
    }
    assert GOLDEN[profile.name, profile.revision, family.name, family.revision] == found


NORMAL = {"do_normalize": True, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 0.6, 0.7]}
LIMITS = {"min_pixels": 3136, "max_pixels": 100_352}


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(2, 40))
def test_sides_are_multiples_and_the_area_is_within_limits(
    height: int, width: int, factor: int
) -> None:
    assume(max(height, width) <= 200 * min(height, width))
    high, wide = grid_size(height, width, factor=factor, **LIMITS)
    assert high % factor == wide % factor == 0
    assert min(high, wide) >= factor
    assert high * wide >= LIMITS["min_pixels"]
    assert high * wide <= LIMITS["max_pixels"] or factor in {high, wide}


@given(st.integers(1, 300), st.integers(1, 300))
def test_a_picture_too_thin_is_refused_in_the_servers_words(short: int, more: int) -> None:
    sides = 200 * short + more, short
    for height, width in (sides, sides[::-1]):
        with pytest.raises(EncodeError) as error:
            grid_size(height, width, factor=28, **LIMITS)
        assert error.value.item_kind == "aspect_ratio"
        assert str(sides[0] / sides[1]) in error.value.message
    assert grid_size(200 * short, short, factor=28, **LIMITS)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
def test_each_patch_lies_where_the_grid_says(rows: int, columns: int, times: int) -> None:
    """Cells of the merged grid row by row; within one, its patches row by row."""
    made = small(temporal_patch_size=times)
    frames = picture(columns * 4, rows * 4)
    pixels = made(frames)
    patches = iter(pixels.tensors["pixel_values"].reshape(-1, 3, times, 2, 2))
    for row, column, below, beside in np.ndindex(rows, columns, 2, 2):
        top, left = row * 4 + below * 2, column * 4 + beside * 2
        square = frames.rgb[0, top : top + 2, left : left + 2].transpose(2, 0, 1)
        patch = next(patches)
        for time in range(times):
            assert np.array_equal(patch[:, time], square)
    assert pixels.tensors["image_grid_thw"].tolist() == [1, rows * 2, columns * 2]
    assert pixels.num_tokens == rows * columns


@given(st.integers(1, 60), st.integers(1, 60), st.sampled_from(({}, NORMAL)))
def test_size_and_count_are_known_beforehand(
    width: int, height: int, steps: dict[str, Any]
) -> None:
    made = small(do_resize=True, **steps)
    plain, packed = made(picture(width, height)), made.compact(picture(width, height))
    assert plain.num_tokens == packed.num_tokens == made.num_tokens(width, height)
    assert plain.size_bytes == made.pixel_bytes(width, height)
    tables = sum(table.values.nbytes for table in packed.tables.values())
    assert packed.size_bytes + tables == made.pixel_bytes(width, height, compact=True)
    expanded = packed.expanded().tensors
    assert expanded.keys() == plain.tensors.keys()
    for name, array in plain.tensors.items():
        assert expanded[name].dtype == array.dtype
        assert expanded[name].tobytes() == array.tobytes()


def test_what_is_not_resized_has_to_fit() -> None:
    with pytest.raises(EncodeError) as error:
        small().num_tokens(8, 6)
    assert error.value.item_kind == "size"
    assert small().num_tokens(8, 4) == 2


def test_pictures_of_a_request_follow_each_other() -> None:
    made = small()
    first, second = made(picture(8, 4)), made(picture(4, 12))
    both = made.processed([first, second])
    assert both["image_grid_thw"].tolist() == [[1, 2, 4], [1, 6, 2]]
    assert both["pixel_values"].shape == (8 + 12, 24)
    assert np.array_equal(both["pixel_values"][8:], second.tensors["pixel_values"])


def test_only_transformers_puts_a_marked_colour_on_white(tmp_path: Path) -> None:
    frames = Frames(np.full((1, 56, 56, 3), 7, np.uint8), key_rgb=(7, 7, 7))
    plain = Frames(frames.rgb)
    for profile, same in ((TRANSFORMERS_PIL_5, False), (MLX_VLM_0_7, True)):
        made = preprocessor(tmp_path, "qwen2_vl", profile)
        ours, bare = (made(each).tensors["pixel_values"] for each in (frames, plain))
        assert np.array_equal(ours, bare) is same


def test_a_preprocessor_can_be_sent_to_another_process() -> None:
    made = small()
    first = made(picture(8, 4)).tensors["pixel_values"]
    copy = pickle.loads(pickle.dumps(made))  # noqa: S301  our own bytes
    assert np.array_equal(copy(picture(8, 4)).tensors["pixel_values"], first)


def test_a_picture_without_end_is_refused() -> None:
    made = small(do_resize=True, min_pixels=2**40, max_pixels=2**41)
    with pytest.raises(EncodeError) as error:
        made(picture(4, 4))
    assert error.value.item_kind == "too_long"


@pytest.mark.parametrize(
    ("found", "transformers", "mlx_vlm"),
    [
        ({}, (3136, 1003520), (3136, 1003520)),
        ({"min_pixels": None, "max_pixels": None}, (3136, 1003520), (3136, 1003520)),
        ({"max_pixels": 50176}, (3136, 50176), (3136, 50176)),
        ({"size": {"shortest_edge": 7, "longest_edge": 99}}, (7, 99), (7, 99)),
        (
            {
                "size": {"shortest_edge": 7, "longest_edge": 99},
                "max_pixels": 50,
                "min_pixels": None,
            },
            *((7, 50), (7, 50)),
        ),
        ({"size": {"longest_edge": 99}}, None, (3136, 99)),
        ({"size": {"height": 9, "width": 9}}, None, (3136, 1003520)),
        ({"size": 224}, None, None),
        ({"size": {}}, None, (3136, 1003520)),
        ({"size": {"min_pixels": 1, "max_pixels": 2}}, None, (3136, 1003520)),
        (
            {"size": {"min_pixels": 1, "max_pixels": 2}, "min_pixels": 7, "max_pixels": 8},
            *((7, 8), (7, 8)),
        ),
        ({"max_pixels": 0}, None, None),
        ({"max_pixels": True}, None, None),
        ({"max_pixels": "99"}, None, None),
        ({"max_pixels": 10**30}, None, None),
    ],
    ids=str,
)
def test_limits_are_resolved_as_each_server_does(
    found: dict[str, Any],
    transformers: tuple[int, int] | None,
    mlx_vlm: tuple[int, int] | None,
    tmp_path: Path,
) -> None:
    for profile, expected in ((TRANSFORMERS_PIL_5, transformers), (MLX_VLM_0_7, mlx_vlm)):
        if expected is None:
            with pytest.raises(ModelError):
                resolved(tmp_path, "qwen2_vl", profile, **found)
        else:
            settings = resolved(tmp_path, "qwen2_vl", profile, **found)
            assert (settings["min_pixels"], settings["max_pixels"]) == expected


def test_mlx_vlm_takes_its_own_defaults_without_any_settings(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "qwen3_vl"}')
    checkpoint = open_checkpoint(str(tmp_path))
    settings = qwen3_vl.FAMILY.resolve(checkpoint, MLX_VLM_0_7)
    assert (settings["patch_size"], settings["image_mean"]) == (16, [0.5, 0.5, 0.5])
    with pytest.raises(ModelError):
        qwen3_vl.FAMILY.resolve(checkpoint, TRANSFORMERS_PIL_5)


def test_what_the_processor_file_says_goes_first_in_mlx_vlm(tmp_path: Path) -> None:
    nested = {"image_processor": {"max_pixels": 50176}}
    (tmp_path / "processor_config.json").write_text(json.dumps(nested))
    settings = resolved(tmp_path, "qwen2_vl", MLX_VLM_0_7, max_pixels=9, min_pixels=7)
    assert (settings["min_pixels"], settings["max_pixels"]) == (7, 50176)


@pytest.mark.parametrize("value", [0.5, "x", [0.5], [1, 2, "x"]], ids=str)
def test_a_mean_that_mlx_vlm_cannot_use_is_refused(
    value: Any,  # noqa: ANN401  as in the JSON
    tmp_path: Path,
) -> None:
    with pytest.raises(ModelError):
        resolved(tmp_path, "qwen2_vl", MLX_VLM_0_7, image_mean=value)


def test_another_image_processor_is_refused_where_its_name_is_looked_at(tmp_path: Path) -> None:
    other = {"image_processor_type": "CLIPImageProcessor"}
    with pytest.raises(ModelError, match="CLIPImageProcessor"):
        resolved(tmp_path, "qwen2_vl", TRANSFORMERS_PIL_5, **other)
    assert resolved(tmp_path, "qwen2_vl", MLX_VLM_0_7, **other)["patch_size"] == 14


def test_unknown_processors_are_refused() -> None:
    other = Profile("other", 1, "x", ("1",), processors="torchvision")
    with pytest.raises(ModelError, match="unknown processors `torchvision`"):
        qwen2_vl.FAMILY.preprocessor({}, other)


@pytest.mark.parametrize(
    ("model_type", "name"),
    [
        *((name, name) for name in FAMILIES),
        *(("qwen3_vl_moe", "qwen3_vl"), ("qwen3_5_moe", "qwen3_5")),
    ],
)
def test_a_mixture_of_experts_sees_as_its_plain_sibling(model_type: str, name: str) -> None:
    config = {"model_type": model_type, "vision_config": {"model_type": model_type}}
    assert family_name(config, known=FAMILIES) == name
