"""Recipes kept beside files that cannot say how they were made."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from vcache_cli.assemble import create_root
from vcache_cli.digest import digest_json
from vcache_cli.store import StoreRoot
from vcache_cli.store.recipes import keep_recipe, kept_recipes

RECIPE: dict[str, Any] = {"target": "vllm-ec", "settings": {"size": [1, 2]}}


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    return create_root(tmp_path / "store", target="vllm-ec")


def folder(root: StoreRoot) -> Path:
    return root.path / ".vcache/recipes"


def test_what_is_kept_is_read_again(root: StoreRoot) -> None:
    keep_recipe(root, RECIPE)
    keep_recipe(root, RECIPE)
    keep_recipe(root, RECIPE | {"stage": "features"})
    assert [path.suffix for path in folder(root).iterdir()] == [".json", ".json"]
    found = list(kept_recipes(root))
    assert RECIPE in found
    assert len(found) == 2


def test_nothing_is_kept_where_files_say_it(tmp_path: Path) -> None:
    native = create_root(tmp_path / "native", target="native")
    keep_recipe(native, RECIPE)
    assert not folder(native).exists()
    assert list(kept_recipes(native)) == []


def test_a_torn_recipe_is_no_recipe_and_is_written_anew(root: StoreRoot) -> None:
    keep_recipe(root, RECIPE)
    path = folder(root) / f"{digest_json(RECIPE)}.json"
    os.chmod(path, 0o600)
    path.write_bytes(path.read_bytes()[:-1])
    assert list(kept_recipes(root)) == []
    keep_recipe(root, RECIPE)
    assert list(kept_recipes(root)) == [RECIPE]


def test_strange_files_are_passed_over(root: StoreRoot) -> None:
    keep_recipe(root, RECIPE)
    (folder(root) / "notes.txt").write_text("x")
    (folder(root) / f"{'0' * 64}.json").write_text("{}")
    (folder(root) / f"{digest_json([1])}.json").write_text("[1]")
    deep = b"[" * 60_000
    from vcache_cli.digest import digest_bytes

    (folder(root) / f"{digest_bytes(deep)}.json").write_bytes(deep)
    os.symlink(root.path / "secret", folder(root) / f"{'1' * 64}.json")
    os.mkfifo(folder(root) / f"{'2' * 64}.json")
    (folder(root) / f"{'3' * 64}.json").mkdir()
    assert list(kept_recipes(root)) == [RECIPE]


def test_a_link_in_the_place_of_the_folder_is_not_followed(root: StoreRoot, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / f"{digest_json(RECIPE)}.json").write_text(json.dumps(RECIPE))
    os.symlink(elsewhere, folder(root))
    keep_recipe(root, RECIPE | {"a": 1})
    assert list(kept_recipes(root)) == []
    assert len(list(elsewhere.iterdir())) == 1
