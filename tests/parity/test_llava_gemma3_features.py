"""LLaVA's and Gemma 3's features against mlx-vlm's own models, with the same weights.

What is compared is what its language model is given: the rows of `get_input_embeddings` at the
image tokens.
"""

from __future__ import annotations

import importlib
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from samples.make_tiny_llava import POOLED_TOKENS, make_checkpoint, model_config, text_config
from tests.encode.five_pictures import five_pixels
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.encode import gemma3, llava, load_encoder, mlx_ops, numpy_backend
from vcache_cli.items import Pixels
from vcache_cli.protocols import Backend, Tower

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

LIMIT = 1e-4
"""Largest difference in float32, relative to the largest reference value."""

NARROW_LIMIT = 6e-2
"""The same where both sides compute in bfloat16."""

TOWERS: dict[str, Tower] = {"llava": llava.TOWER, "gemma3": gemma3.TOWER}
BACKENDS: dict[str, Backend] = {"numpy": numpy_backend.BACKEND, "mlx": mlx_ops.BACKEND}
CASES = [
    *(("llava", "clip", layer) for layer in (-2, -1, 1)),
    *(("llava", "siglip", layer) for layer in (-2, -1)),
    ("gemma3", "siglip", None),
]
Errors = defaultdict[str, list[float]]


@pytest.fixture(scope="module")
def errors() -> Iterator[Errors]:
    """Prints what was compared, when all is done."""
    found: Errors = defaultdict(list)
    yield found
    for pair, values in sorted(found.items()):
        print(f"\n{pair}: {len(values)} x 5 pictures, largest relative error {max(values):.2e}")


def written(folder: Path, family: str, tower: str, layer: int | None = None) -> Path:
    """A tiny checkpoint that says all that mlx-vlm reads.

    It looks for Gemma's number of tokens beside the language model's sizes, and gives every tower
    inside LLaVA CLIP's activation whatever its configuration says.
    """
    vision = model_config(family, tower)["vision_config"]
    changes: dict[str, Any] = {"text_config": text_config(family)}
    if family == "gemma3":
        changes["text_config"] |= {"mm_tokens_per_image": POOLED_TOKENS}
    else:
        changes["vision_config"] = vision | {"hidden_act": "quick_gelu"}
        changes["vision_feature_layer"] = layer
    return make_checkpoint(folder, family=family, tower=tower, changes=changes)


def their_model(family: str, folder: Path) -> Any:  # noqa: ANN401  an MLX module
    """mlx-vlm's model with the checkpoint's tower and projector, turned by its own rules."""
    package = importlib.import_module(f"mlx_vlm.models.{family}")
    said = json.loads((folder / "config.json").read_text())
    config = package.ModelConfig.from_dict(said)
    config.text_config = package.TextConfig.from_dict(said["text_config"])
    config.vision_config = package.VisionConfig.from_dict(said["vision_config"])
    model = package.Model(config)
    found = mx.load(str(folder / "model.safetensors"))
    assert isinstance(found, dict)
    ours = {name: value for name, value in found.items() if not name.startswith("language_model")}
    model.load_weights([*model.vision_tower.sanitize(ours).items()], strict=False)
    assert ours.keys() <= dict(tree_flatten(model.parameters())).keys()
    return model


def reference(model: Any, pixels: list[Pixels]) -> NDArray[np.float32]:  # noqa: ANN401
    """What its language model is given for each picture, before Gemma's own scaling."""
    rows = []
    for each in pixels:
        tokens = mx.full((1, each.num_tokens), model.config.image_token_index, mx.int32)
        values = mx.array(each.tensors["pixel_values"][None])
        given = model.get_input_embeddings(tokens, values, mask=mx.ones(tokens.shape))
        found = given.inputs_embeds.astype(mx.float32)
        if model.config.model_type == "gemma3":
            found = found * model.config.hidden_size**0.5
        rows.append(np.asarray(found[0]))
    return np.stack(rows)


def encoded(
    family: str, folder: Path, pixels: list[Pixels], backend: Backend, dtype: str = "F32"
) -> NDArray[np.float32]:
    """What we make of them."""
    checkpoint = open_checkpoint(str(folder))
    encoder = load_encoder(checkpoint, TOWERS[family], backend, compute_dtype=dtype)
    return np.stack([each.tensors["features"] for each in encoder.encode(pixels)])


def error_of(found: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    """Relative to the largest value."""
    assert found.shape == expected.shape
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_features_are_what_mlx_vlm_gives_its_language_model(
    case: tuple[str, str, int | None], backend: str, tmp_path: Path, errors: Errors
) -> None:
    family, tower, layer = case
    folder = written(tmp_path, family, tower, layer)
    pixels = five_pixels(folder)
    expected = reference(their_model(family, folder), pixels)
    error = error_of(encoded(family, folder, pixels, BACKENDS[backend]), expected)
    errors[f"{family} with {tower}, {backend} against mlx-vlm, float32"].append(error)
    assert error < LIMIT


@pytest.mark.parametrize("family", TOWERS)
def test_features_in_bfloat16_are_near_those_of_mlx_vlm(
    family: str, tmp_path: Path, errors: Errors
) -> None:
    """Both sides round after each step, not after the same ones."""
    folder = written(tmp_path, family, "clip" if family == "llava" else "siglip", -2)
    pixels = five_pixels(folder)
    model = their_model(family, folder)
    model.set_dtype(mx.bfloat16)
    error = error_of(
        encoded(family, folder, pixels, mlx_ops.BACKEND, "BF16"), reference(model, pixels)
    )
    errors[f"{family}, mlx against mlx-vlm, bfloat16"].append(error)
    assert error < NARROW_LIMIT


@pytest.mark.parametrize("family", TOWERS)
def test_a_checkpoint_of_mlx_vlm_is_the_same_tower(family: str, tmp_path: Path) -> None:
    """As its converter writes it: channels last in the patches."""
    folder = written(tmp_path / "hub", family, "clip" if family == "llava" else "siglip", -2)
    weights = dict(tree_flatten(their_model(family, folder).parameters()))
    converted = tmp_path / "converted"
    converted.mkdir()
    mx.save_safetensors(str(converted / "model.safetensors"), weights, {"format": "mlx"})
    (converted / "config.json").write_bytes((folder / "config.json").read_bytes())
    pixels = five_pixels(folder)
    ours, theirs = (
        encoded(family, each, pixels, numpy_backend.BACKEND) for each in (folder, converted)
    )
    assert np.array_equal(ours, theirs)
