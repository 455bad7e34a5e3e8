from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from vcache_cli.assemble import LoadedRecipe, WarmOptions, load_recipe
from vcache_cli.assemble.fit import check_fit
from vcache_cli.encode import FingerprintMemo, TowerEncoder
from vcache_cli.errors import ModelError
from vcache_cli.items import Stage
from vcache_cli.protocols import Preprocessor

FEATURES = WarmOptions(stage=Stage.FEATURES, backend="numpy")


@pytest.fixture
def loaded(tiny_siglip: Path) -> LoadedRecipe:
    return load_recipe(tiny_siglip, FEATURES)


def tower_of(loaded: LoadedRecipe) -> TowerEncoder:
    assert isinstance(loaded.encoder, TowerEncoder)
    return loaded.encoder


def never() -> Preprocessor:
    raise ModelError("made, though it is known to fit")


def test_what_fitted_is_not_tried_again(loaded: LoadedRecipe, tmp_path: Path) -> None:
    memo = FingerprintMemo(tmp_path / "memo.json")
    parts = (loaded.checkpoint, loaded.recipe)
    with pytest.raises(ModelError, match="made"):
        check_fit(*parts, never, tower_of(loaded), memo)
    check_fit(*parts, loaded.make_preprocessor, tower_of(loaded), memo)
    check_fit(*parts, never, tower_of(loaded), memo)
    with pytest.raises(ModelError, match="made"):
        check_fit(*parts, never, tower_of(loaded), None)


def test_another_recipe_is_tried(loaded: LoadedRecipe, tmp_path: Path) -> None:
    memo = FingerprintMemo(tmp_path / "memo.json")
    check_fit(loaded.checkpoint, loaded.recipe, loaded.make_preprocessor, tower_of(loaded), memo)
    other = replace(loaded.recipe, family_revision=99)
    with pytest.raises(ModelError, match="made"):
        check_fit(loaded.checkpoint, other, never, tower_of(loaded), memo)


def test_what_does_not_fit_is_refused_each_time(tiny_siglip: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_siglip, folder)
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    settings["size"] = {"height": 48, "width": 48}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    for _ in range(2):
        with pytest.raises(ModelError, match=r"takes .* pixels, .* makes 3 x 48 x 48") as refused:
            load_recipe(folder, FEATURES)
        assert "do not belong together" in refused.value.hint
