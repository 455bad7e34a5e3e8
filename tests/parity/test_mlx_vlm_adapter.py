"""mlx-vlm's own models answer alike from a picture and from the features that we take of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.parity.tiny_models import FAMILIES, make_model
from vcache_cli import WarmOptions, load_recipe
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.encode.mlx_vlm import (
    ModelOwner,
    ServerPreprocessor,
    features_of,
    how_split,
    load_server_encoder,
)
from vcache_cli.encode.mlx_vlm.activations import quicken
from vcache_cli.encode.mlx_vlm.pictures import to_arrays
from vcache_cli.errors import ModelError, RefusedError
from vcache_cli.items import Frames, Pixels
from vcache_cli.preprocess.profiles import MLX_VLM_0_7
from vcache_cli.registry import load

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vcache_cli.protocols import Preprocessor

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:At least one mel filter"),  # of gemma4's audio, unused
]
pytest.importorskip("mlx_vlm")

SIZES = ((100, 140), (64, 64), (300, 90))
"""Heights and widths of the pictures, pixels."""
TOLERANCE = 1e-6
"""Of log probabilities: the features pass through numpy, and nothing else differs."""
TOWERS = ("qwen2_vl", "qwen2_5_vl", "qwen3_5", "llava", "gemma3")
"""Families for which both are there."""
TOWER_TOLERANCE = 1e-5
"""Of the largest feature: both compute in float32, in another order."""
WITHOUT_PROCESSOR = ("llava",)
"""Their processor in mlx-vlm 0.7.10 hands `padding` to one of transformers that refuses it."""


@dataclass(frozen=True)
class Loaded:
    """A tiny model, and what prepares its pictures."""

    family: str
    owner: ModelOwner
    preprocessor: Preprocessor

    @property
    def model(self) -> Any:  # noqa: ANN401  MLX ships no usable types
        """As mlx-vlm loaded it."""
        return self.owner.loaded.model

    def inputs(self, pixels: Pixels) -> dict[str, Any]:
        """What the model is called with; a prompt of its own where none was processed."""
        inputs = dict(self.preprocessor.processed([pixels]))
        if "input_ids" not in inputs:
            prompt = [1, *[self.model.config.image_token_index] * pixels.num_tokens, 2, 3]
            inputs["input_ids"] = np.array([prompt], np.int64)
        return inputs


@pytest.fixture(scope="module", params=FAMILIES)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    family = request.param
    return open_model(make_model(tmp_path_factory.mktemp(family), family), family)


def open_model(folder: Path, family: str) -> Loaded:
    checkpoint = open_checkpoint(str(folder))
    owner = ModelOwner(checkpoint)
    if family not in WITHOUT_PROCESSOR:
        return Loaded(family, owner, ServerPreprocessor(owner))
    ours = load("families", family)
    settings = ours.resolve(checkpoint, MLX_VLM_0_7)
    return Loaded(family, owner, ours.preprocessor(settings, MLX_VLM_0_7))


def pictures() -> Iterator[Frames]:
    draw = np.random.default_rng(5)
    for height, width in SIZES:
        yield Frames(draw.integers(0, 256, (1, height, width, 3), dtype=np.uint8))


def first_logprobs(model: Any, inputs: dict[str, Any], **more: Any) -> NDArray[np.float32]:  # noqa: ANN401  as above
    """Log probabilities of the first token of an answer, by mlx-vlm's own generation."""
    import mlx.core as mx
    from mlx_vlm.generate import generate_step

    arrays = {
        name: mx.array(value) if isinstance(value, np.ndarray) else value
        for name, value in inputs.items()
    }
    ids, pixels = arrays.pop("input_ids"), arrays.pop("pixel_values")
    mask = arrays.pop("attention_mask", None)
    steps = generate_step(ids, model, pixels, mask, max_tokens=1, temperature=0.0, **arrays, **more)
    _, logprobs = next(iter(steps))
    return np.array(logprobs.astype(mx.float32)).reshape(-1)


def given(model: Any, features: Any) -> Any:  # noqa: ANN401  as above
    """Our features as a server hands them to the model."""
    import mlx.core as mx

    if "features" in features.tensors:
        return mx.array(features.tensors["features"])
    return [mx.array(features.tensors[name]) for name in features.tensors]


def test_the_answer_from_cached_features_is_that_from_the_picture(loaded: Loaded) -> None:
    encoder = load_server_encoder(loaded.owner, loaded.preprocessor)
    for frames in pictures():
        pixels = loaded.preprocessor(frames)
        features = encoder.encode([pixels])[0]
        inputs = loaded.inputs(pixels)
        expected = loaded.owner.run(partial(first_logprobs, loaded.model, inputs))
        ours = partial(given, loaded.model, features)
        more = {"cached_image_features": loaded.owner.run(ours)}
        found = loaded.owner.run(partial(first_logprobs, loaded.model, inputs, **more))
        assert np.isfinite(expected).all()
        assert np.abs(found - expected).max() <= TOLERANCE


@pytest.mark.parametrize("family", TOWERS)
def test_our_own_tower_gives_what_mlx_vlm_gives(family: str, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model", family)
    frames, found = next(pictures()), []
    for backend in ("numpy", "mlx-vlm"):
        options = WarmOptions(backend=backend, profile=MLX_VLM_0_7.name, output="projected")
        recipe = load_recipe(folder, options)
        assert recipe.encoder
        features = recipe.encoder.encode([recipe.preprocessor(frames)])[0].tensors["features"]
        found.append(features.reshape(-1, features.shape[-1]))
    apart = np.abs(found[0] - found[1]).max() / np.abs(found[1]).max()
    print(f"{family}: our tower and mlx-vlm's differ by {apart:.1e} of the largest feature")
    assert apart <= TOWER_TOLERANCE


def test_another_picture_gives_another_answer(loaded: Loaded) -> None:
    made = [loaded.inputs(loaded.preprocessor(frames)) for frames in pictures()]
    answers = [loaded.owner.run(partial(first_logprobs, loaded.model, each)) for each in made]
    assert np.abs(answers[0] - answers[1]).max() > 100 * TOLERANCE


def test_a_checkpoint_that_brings_code_is_refused_unless_trusted(tmp_path: Path) -> None:
    for file in ("config.json", "tokenizer_config.json", "processor_config.json"):
        folder = make_model(tmp_path / file, "qwen2_5_vl")
        path = folder / file
        content = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**content, "auto_map": {"AutoProcessor": "code.Processor"}}))
        with pytest.raises(RefusedError, match="auto_map"):
            _ = ModelOwner(open_checkpoint(str(folder))).loaded


def test_a_model_that_loses_something_by_the_cache_cannot_be_split(tmp_path: Path) -> None:
    """Its cached features lack the DeepStack layers, so that it would answer otherwise."""
    from mlx_vlm.models.qwen3_vl_moe import Model

    with pytest.raises(ModelError, match="deepstack_visual_embeds"):
        how_split(Model.__new__(Model))


def test_most_models_that_take_cached_features_can_be_split() -> None:
    taken = [name for name in model_types() if _split(name) is not None]
    refused = [name for name in taken if _split(name) == "refused"]
    assert len(taken) >= 60
    assert set(refused) <= {
        "cohere_compass",
        "minicpmv4_7",
        "phi3_v",
        "qwen3_vl",
        "qwen3_vl_embedding",
        "qwen3_vl_moe",
    }


def model_types() -> list[str]:
    import mlx_vlm.models

    return sorted(each.name for each in iter_modules(mlx_vlm.models.__path__) if each.ispkg)


def _split(name: str) -> str | None:
    """How a family is split; None where it takes no cached features."""
    try:
        kind = import_module(f"mlx_vlm.models.{name}").Model
        return how_split(kind.__new__(kind))
    except ModelError as error:
        return None if "takes no" in error.message else "refused"
    except (AttributeError, ImportError, TypeError):  # no model of this kind, or one of text alone
        return None


def test_features_of_a_server_s_own_dtype_are_kept_in_it(tmp_path: Path) -> None:
    """A tower in bfloat16 computes in float32 on a CPU; the model still merges bfloat16."""
    import mlx.core as mx

    folder = make_model(tmp_path / "model", "qwen2_5_vl")
    weights: Any = mx.load(str(folder / "model.safetensors"))
    narrow = {name: array.astype(mx.bfloat16) for name, array in weights.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), narrow, {"format": "mlx"})
    loaded = open_model(folder, "qwen2_5_vl")
    encoder = load_server_encoder(loaded.owner, loaded.preprocessor)
    assert encoder.stored_dtype == "BF16"
    if encoder.device["device"] == "cpu":
        assert encoder.device["dtype"] == "F32"


@pytest.mark.parametrize("family", FAMILIES)
def test_activations_by_numpy_give_what_mlx_itself_gives(family: str, tmp_path: Path) -> None:
    """Before and after those of a model are replaced."""
    import mlx.core as mx

    loaded = open_model(make_model(tmp_path / "model", family), family)
    pixels = loaded.preprocessor(next(pictures()))
    inputs = {name: to_arrays(value) for name, value in loaded.inputs(pixels).items()}

    def features() -> list[NDArray[np.float32]]:
        found = features_of(loaded.model, inputs)
        parts = found if isinstance(found, list | tuple) else [found]
        return [np.array(part.astype(mx.float32)) for part in parts]

    before = loaded.owner.run(features)
    loaded.owner.run(partial(quicken, loaded.model))
    for one, other in zip(before, loaded.owner.run(features), strict=True):
        assert np.abs(one - other).max() <= TOWER_TOLERANCE * np.abs(one).max()
