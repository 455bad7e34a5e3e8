"""Whole requests of Gemma 4 for oMLX, against what mlx-vlm's model makes of the same request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors import safe_open

from tests.parity.tiny_models import make_model
from vcache_cli.assemble import WarmOptions, open_warm
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.encode.mlx_vlm import ModelOwner
from vcache_cli.media import GroupFile
from vcache_cli.outcome import Status

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:At least one mel filter"),  # of its audio, unused
]
pytest.importorskip("mlx_vlm")

SIZES = ((140, 100), (90, 300), (64, 64))
"""Widths and heights: three different counts of tokens."""
LIMIT = 2e-2
"""Largest difference, relative to the largest value: bfloat16 in the model and on disk."""


@pytest.fixture
def pictures(tmp_path: Path) -> list[Path]:
    draw, found = np.random.default_rng(5), []
    for width, height in SIZES:
        found.append(tmp_path / f"{width}.png")
        Image.fromarray(draw.integers(0, 256, (height, width, 3), np.uint8)).save(found[-1])
    return found


def of_the_server(model: Path, pictures: list[Path]) -> tuple[Any, int]:
    """Features of the request as its model encodes it, and the places that the prompt has."""
    owner = ModelOwner(open_checkpoint(str(model)))

    def encode() -> tuple[Any, int]:
        import mlx.core as mx
        from mlx_vlm.prompt_utils import apply_chat_template
        from mlx_vlm.utils import prepare_inputs

        loaded = owner.loaded
        config, images = loaded.model.config, [Image.open(path) for path in pictures]
        prompt = apply_chat_template(loaded.processor, config, "?", num_images=len(images))
        inputs = prepare_inputs(
            loaded.processor, images=images, prompts=prompt, add_special_tokens=False
        )
        features = loaded.model.encode_image(inputs["pixel_values"])
        places = (inputs["input_ids"] == config.image_token_id).sum()
        return np.array(features.astype(mx.float32)), int(places.item())

    return owner.run(encode)


def test_a_request_of_pictures_of_any_size_is_one_entry(
    tmp_path: Path, pictures: list[Path]
) -> None:
    model, groups = make_model(tmp_path / "gemma4", "gemma4"), tmp_path / "groups.jsonl"
    groups.write_text(json.dumps([path.name for path in pictures]))
    store = tmp_path / "vision_features"
    options = WarmOptions(target="omlx", target_options={"groups": "only"})
    with open_warm(GroupFile(str(groups)), store=store, model=str(model), options=options) as run:
        assert [outcome.status for outcome in run] == [Status.STORED]
    (file,) = store.glob("?/*.safetensors")
    wanted, places = of_the_server(model, pictures)
    with safe_open(file, "np") as opened:
        shape = tuple(opened.get_slice("feature").get_shape())
        assert "grid_thw" not in opened.metadata()
    assert shape == wanted.shape
    assert shape[0] * shape[1] == places
    data = file.read_bytes()
    raw = np.frombuffer(data[8 + int.from_bytes(data[:8], "little") :], "<u2")
    found = (raw.astype(np.uint32) << 16).view(np.float32).reshape(shape)
    assert np.abs(found - wanted).max() <= LIMIT * np.abs(wanted).max()
