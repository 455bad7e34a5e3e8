from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from vcache_cli.assemble import WarmOptions, load_recipe
from vcache_cli.errors import ModelError
from vcache_cli.items import Stage


@pytest.mark.parametrize("side", [16, 10_000])
def test_pictures_of_another_size_than_the_tower_takes_are_refused_before_any_is_opened(
    tmp_path: Path, tiny_siglip: Path, side: int
) -> None:
    """A size of 10,000 took 12 GB and then failed for each picture by itself."""
    model = shutil.copytree(tiny_siglip, tmp_path / "model")
    path = model / "preprocessor_config.json"
    settings = json.loads(path.read_text())
    settings["size"] = {"height": side, "width": side}
    path.write_text(json.dumps(settings))
    with pytest.raises(ModelError, match=f"takes 3 x 64 x 64 pixels.*makes 3 x {side} x {side}"):
        load_recipe(model)
    load_recipe(model, WarmOptions(stage=Stage.PIXELS))  # no tower, no contradiction


def test_the_recipe_of_pixels_needs_no_weights_and_names_none(tiny_siglip: Path) -> None:
    pixels = load_recipe(tiny_siglip, WarmOptions(stage=Stage.PIXELS))
    features = load_recipe(tiny_siglip)
    assert pixels.recipe.encoder is None
    assert features.recipe.encoder
    assert pixels.key_of(b"bytes") != features.key_of(b"bytes")
