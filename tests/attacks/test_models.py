"""Model folders made to hang, to fill the memory, or to make pixels that mean nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from samples import make_tiny_llava, make_tiny_qwen
from vcache_cli.assemble import load_recipe
from vcache_cli.assemble.options import WarmOptions
from vcache_cli.errors import EncodeError, ModelError
from vcache_cli.items import Frames, Stage

PIXELS = WarmOptions(stage=Stage.PIXELS)


@pytest.fixture
def model(tmp_path: Path, tiny_siglip: Path) -> Path:
    shutil.copytree(tiny_siglip, tmp_path / "m", copy_function=shutil.copyfile)
    return tmp_path / "m"


def change(path: Path, part: str | None, values: Mapping[str, Any]) -> None:
    content = json.loads(path.read_text())
    (content[part] if part else content).update(values)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"num_hidden_layers": 2**30}, "`num_hidden_layers` of at most"),
        ({"model_type": ["siglip"]}, "expected a siglip vision part"),
        ({"model_type": {"siglip": 1}}, "expected a siglip vision part"),
    ],
)
def test_a_configuration_without_sense_is_refused(
    model: Path, values: dict[str, Any], words: str
) -> None:
    change(model / "config.json", "vision_config", values)
    with pytest.raises(ModelError, match=words):
        load_recipe(model)


@pytest.mark.parametrize("value", [["a"], {"a": 1}, "a"])
@pytest.mark.parametrize(
    ("family", "part", "name"),
    [
        ("gemma3", "vision_config", "model_type"),
        ("llava", "vision_config", "model_type"),
        ("llava", None, "vision_feature_select_strategy"),
        ("llava", None, "vision_feature_layer"),
        ("qwen2_5_vl", "vision_config", "model_type"),
        ("qwen2_5_vl", None, "model_type"),
        ("qwen3_vl", "vision_config", "deepstack_visual_indexes"),
    ],
)
def test_a_setting_of_any_type_is_refused_with_the_folders_name(
    tmp_path: Path, family: str, part: str | None, name: str, value: object
) -> None:
    """A list is no member of a set, which Python tells by an exception of its own."""
    maker = make_tiny_qwen if family.startswith("qwen") else make_tiny_llava
    folder = maker.make_checkpoint(tmp_path / "m", family=family)
    change(folder / "config.json", part, {name: value})
    with pytest.raises(ModelError, match=re.escape(str(folder))):
        load_recipe(folder)


@pytest.mark.parametrize(
    "values", [{"patch_size": 7}, {"temporal_patch_size": 1}, {"min_pixels": 10**9, "size": None}]
)
@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_patches_of_another_tower_are_refused_before_any_picture_is_opened(
    tmp_path: Path, family: str, values: dict[str, Any]
) -> None:
    folder = make_tiny_qwen.make_checkpoint(tmp_path / "m", family=family)
    change(folder / "preprocessor_config.json", None, values)
    with pytest.raises(ModelError, match=re.escape(str(folder))):
        load_recipe(folder)


def test_blocks_of_another_tower_give_no_features(tmp_path: Path) -> None:
    """Four by four patches are also two by two, four times: only the tokens tell."""
    folder = make_tiny_qwen.make_checkpoint(tmp_path / "m", family="qwen2_5_vl")
    change(folder / "preprocessor_config.json", None, {"merge_size": 4})
    loaded = load_recipe(folder)
    assert loaded.encoder is not None
    pixels = loaded.preprocessor(Frames(np.zeros((1, 64, 64, 3), np.uint8)))
    with pytest.raises(EncodeError, match="expected 1 tokens, got 4"):
        loaded.encoder.encode([pixels])


@pytest.mark.parametrize("step", ["do_resize", "do_center_crop"])
def test_a_step_that_is_switched_off_leaves_no_size(model: Path, step: str) -> None:
    change(model / "preprocessor_config.json", None, {step: None})
    assert load_recipe(model).preprocessor.num_tokens(64, 64) == 64


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"image_std": [0, 0, 0]}, "`image_std` may be 0"),
        ({"image_std": [0.5, 1e-320, 0.5]}, "`image_std` may be 0"),
        ({"rescale_factor": 1e308}, "expected finite pixels"),
        ({"rescale_factor": 10**400}, "expected a number"),
        ({"image_mean": [10**400] * 3}, "expected a number"),
    ],
)
@pytest.mark.parametrize("options", [PIXELS, WarmOptions()])
def test_settings_that_give_no_finite_pixels_are_refused(
    model: Path, values: dict[str, Any], words: str, options: WarmOptions
) -> None:
    change(model / "preprocessor_config.json", None, values)
    with pytest.raises(ModelError, match=words):
        load_recipe(model, options)


@pytest.mark.parametrize(
    "name",
    ["config.json", "preprocessor_config.json", "processor_config.json", "model.safetensors"],
)
def test_a_pipe_in_a_model_folder_keeps_nobody_waiting(model: Path, name: str) -> None:
    (model / name).unlink(missing_ok=True)
    os.mkfifo(model / name)
    with pytest.raises(ModelError):
        load_recipe(model)


def test_a_shard_whose_name_no_file_can_have_is_missing(model: Path) -> None:
    (model / "model.safetensors").unlink()
    name = "vision_model.embeddings.patch_embedding.weight"
    index = {"weight_map": {name: "a" * 5_000}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match=f"expected tensor|expected `{name}`"):
        load_recipe(model)
