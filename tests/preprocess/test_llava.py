"""LLaVA's settings, its square, its counts, and the hashes that catch a forgotten revision."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.digest import canonical_json, digest_bytes
from vcache_cli.errors import EncodeError, ModelError
from vcache_cli.items import Frames
from vcache_cli.preprocess import llava
from vcache_cli.preprocess.llava import LlavaPreprocessor
from vcache_cli.preprocess.profiles import MLX_VLM_0_7, TRANSFORMERS_PIL_5
from vcache_cli.profile import Profile

OWN = {"image_processor_type": "LlavaImageProcessor"}
SMALL = {"size": {"shortest_edge": 28}, "crop_size": {"height": 28, "width": 28}}
CLIP_TOWER = {"model_type": "clip_vision_model", "patch_size": 14}


def resolve(
    folder: Path,
    found: dict[str, Any],
    *,
    profile: Profile = TRANSFORMERS_PIL_5,
    **config: Any,  # noqa: ANN401  JSON values
) -> dict[str, Any]:
    """Settings of a model folder with these files."""
    whole = {"model_type": "llava", "vision_config": CLIP_TOWER} | config
    (folder / "config.json").write_text(json.dumps(whole))
    (folder / "preprocessor_config.json").write_text(json.dumps(found))
    return llava.FAMILY.resolve(open_checkpoint(str(folder)), profile)


@pytest.fixture(scope="module")
def padding(tmp_path_factory: pytest.TempPathFactory) -> LlavaPreprocessor:
    settings = resolve(tmp_path_factory.mktemp("model"), OWN | SMALL | {"do_pad": True})
    return llava.FAMILY.preprocessor(settings, TRANSFORMERS_PIL_5)


def picture(width: int, height: int) -> Frames:
    """Levels by arithmetic alone, so that no library's version reaches them."""
    row, column = np.indices((height, width), np.uint32)
    parts = (row * 7 + column * 3, row * column, (row ^ column) * 5)
    return Frames(np.stack([part % 256 for part in parts], axis=2).astype(np.uint8)[np.newaxis])


GOLDEN = {
    ("transformers-pil-5", 1, "llava", 1): {
        (1, 1): "6b9d3214d19c48b9",
        (10, 200): "23999a1ab619f9ce",
        (64, 33): "cfd0b57b3a4813d9",
    },
}
"""By profile, its revision, family and its revision."""


def test_pixels_are_those_of_this_revision(padding: LlavaPreprocessor) -> None:
    """Other hashes mean other bytes on disk: bump the revision, then take the new hashes."""
    revisions = (TRANSFORMERS_PIL_5.name, TRANSFORMERS_PIL_5.revision, "llava")
    wanted = GOLDEN[(*revisions, llava.FAMILY.revision)]
    values = {size: padding(picture(*size)).tensors["pixel_values"] for size in wanted}
    assert wanted == {
        size: digest_bytes(array.astype("<f4").tobytes())[:16] for size, array in values.items()
    }


@given(st.integers(1, 90), st.integers(1, 90))
def test_a_square_is_around_every_picture(
    padding: LlavaPreprocessor, width: int, height: int
) -> None:
    pixels = padding(picture(width, height))
    assert pixels.tensors["pixel_values"].shape == padding.pixel_shape == (3, 28, 28)
    assert pixels.num_tokens == padding.num_tokens(width, height) == 4
    assert pixels.size_bytes == padding.pixel_bytes(width, height)


def test_the_bars_have_the_colour_of_the_mean(tmp_path: Path) -> None:
    found = OWN | {
        "do_pad": True,
        "do_resize": False,
        "do_center_crop": False,
        "do_normalize": False,
        "rescale_factor": 1.0,
        "image_mean": [0.5, 0.25, 1.0],
    }
    prepare = llava.FAMILY.preprocessor(resolve(tmp_path, found), TRANSFORMERS_PIL_5)
    values = prepare(Frames(np.zeros((1, 1, 4, 3), np.uint8))).tensors["pixel_values"]
    assert values[:, 0, 0].tolist() == values[:, 2, 3].tolist() == [127, 63, 255]
    assert values[:, 1].any() == np.False_
    assert prepare.num_tokens(4, 1) == 0


def test_the_compact_form_expands_to_the_same_bits(padding: LlavaPreprocessor) -> None:
    frames = picture(33, 20)
    plain, compact = padding(frames), padding.compact(frames)
    expanded = compact.expanded().tensors["pixel_values"]
    assert expanded.tobytes() == plain.tensors["pixel_values"].tobytes()


def test_a_preprocessor_can_be_sent_to_another_process(padding: LlavaPreprocessor) -> None:
    copy = pickle.loads(pickle.dumps(padding))  # noqa: S301  our own bytes
    first, second = (each(picture(9, 7)).tensors["pixel_values"] for each in (padding, copy))
    assert np.array_equal(first, second)


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("LlavaImageProcessor", {"shortest_edge": 224}),
        ("CLIPImageProcessorFast", {"shortest_edge": 224}),
        ("SiglipImageProcessor", {"height": 224, "width": 224}),
        (None, {"shortest_edge": 224}),
    ],
)
def test_defaults_are_those_of_the_processor_that_is_named(
    kind: str | None, size: dict[str, int], tmp_path: Path
) -> None:
    settings = resolve(tmp_path, {"image_processor_type": kind})
    assert settings["size"] == size
    assert settings["pad_colour"] is None
    assert json.loads(canonical_json(settings)) == settings


@pytest.mark.parametrize(
    ("tower", "strategy", "extra"),
    [
        ("clip_vision_model", "default", 0),
        ("clip_vision_model", "full", 1),
        ("siglip_vision_model", "full", 0),
        ("siglip_vision_model", "default", -1),
    ],
)
def test_default_cuts_the_first_row_off(
    tower: str, strategy: str, extra: int, tmp_path: Path
) -> None:
    settings = resolve(
        tmp_path,
        OWN | {"size": {"shortest_edge": 336}, "crop_size": 336},
        vision_config={"model_type": tower, "patch_size": 14},
        vision_feature_select_strategy=strategy,
    )
    prepare = llava.FAMILY.preprocessor(settings, TRANSFORMERS_PIL_5)
    assert prepare.num_tokens(640, 480) == 576 + extra


def test_each_server_has_its_own_patch_where_none_is_said(tmp_path: Path) -> None:
    found: dict[str, Any] = {"vision_config": {"model_type": "clip_vision_model"}}
    assert resolve(tmp_path, OWN, **found)["patch_size"] == 32
    assert resolve(tmp_path, OWN, profile=MLX_VLM_0_7, **found)["patch_size"] == 14
    assert resolve(tmp_path, OWN, vision_config=None)["patch_size"] == 14


@pytest.mark.parametrize(
    ("found", "config", "words"),
    [
        (OWN, {"vision_config": {"model_type": "vit"}}, "vision part of `vit`"),
        (OWN, {"vision_feature_select_strategy": None}, "expected `default` or `full`"),
        (OWN | {"do_pad": True, "image_mean": 0.5}, {}, "expects three numbers"),
        (OWN | {"do_pad": True, "image_mean": [0.5, 1.5, 0]}, {}, "expects shares of 255"),
        ({"image_processor_type": "CLIPImageProcessor", "do_pad": True}, {}, "`do_pad`"),
        ({"image_processor_type": "Other"}, {}, "image processor `Other`"),
    ],
)
def test_what_cannot_be_followed_is_refused(
    found: dict[str, Any], config: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=words):
        resolve(tmp_path, found, **config)


def test_unknown_processors_are_refused() -> None:
    other = Profile("other", 1, "x", ("1",), processors="torchvision")
    with pytest.raises(ModelError, match="unknown processors `torchvision`"):
        llava.FAMILY.preprocessor({}, other)


@pytest.mark.parametrize("size", [(65_000, 1), (1, 65_000)])
def test_a_square_that_would_fill_memory_is_refused(
    padding: LlavaPreprocessor, size: tuple[int, int]
) -> None:
    width, height = size
    with pytest.raises(EncodeError, match="would become 65000 x 65000"):
        padding(picture(width, height))
    with pytest.raises(EncodeError, match="would become 65000 x 65000"):
        padding.num_tokens(width, height)
