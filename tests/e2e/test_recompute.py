"""`verify --level recompute` finds every entry that is not what is computed now, and says why."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from samples.make_tiny_llava import make_checkpoint
from tests.e2e.command import Run, aged, entries, many, vcache
from vcache_cli.assemble import create_root
from vcache_cli.digest import digest_json
from vcache_cli.entry import Entry
from vcache_cli.store import DiskStore
from vcache_cli.targets.native import native_key
from vcache_cli.tensor import Tensor

COUNT = 100
OF_EACH = 5

Change = Callable[[Entry], Entry]


@pytest.fixture(scope="session")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred pictures of different values, and beside them the store that they fill."""
    folder = tmp_path_factory.mktemp("hundred")
    picture = Path(__file__).parents[2] / "samples" / "media" / "logo-transparent.png"
    if not picture.exists():
        picture = next(path for path in picture.parent.rglob("*.png"))
    many(folder / "pictures", picture, COUNT)
    return folder


@pytest.fixture(scope="session")
def filled_once(hundred: Path, tiny_siglip: Path) -> Path:
    """A store of the hundred; copy it before changing it."""
    run = vcache("warm", hundred / "pictures", "-m", tiny_siglip, "-s", hundred / "store", "--json")
    assert run.items["stored"] == COUNT
    return hundred / "store"


@pytest.fixture
def filled(filled_once: Path, tmp_path: Path) -> Path:
    """A store of the hundred, of the test's own."""
    return Path(shutil.copytree(filled_once, tmp_path / "filled"))


def recompute(store: Path, model: Path, *more: object) -> Run:
    """The command that this is about."""
    return vcache("verify", store, "--level", "recompute", "--model", model, "--json", *more)


def rewrite(store: Path, keys: Iterable[str], change: Change) -> None:
    """Put each entry again as it is after a change; the writer makes its checksum right."""
    root = create_root(store, target="native")
    with DiskStore(root, mode="w") as disk:
        for key in keys:
            entry = disk.get(key)
            assert entry is not None
            (store / root.layout.path_of(key)).unlink()
            disk.put(change(entry))


def tampered(entry: Entry) -> Entry:
    """Other values, everything else as it was."""
    values = entry.numpy("features").astype(np.float32).copy()
    values[3, 5] += np.abs(values).max() / 20
    tensors = {**entry.tensors, "features": Tensor.from_numpy(values, "BF16")}
    return replace(entry, tensors=tensors)


def with_recipe(entry: Entry, recipe: dict[str, Any]) -> Entry:
    """The entry as if another recipe had made it: under that recipe's key."""
    known = replace(entry.provenance, recipe=recipe)
    source = known.source_sha256 or ""
    key = native_key(entry.stage, source, digest_json(recipe))
    return replace(entry, key=key, provenance=known)


def of_older_revision(entry: Entry) -> Entry:
    """As the tower wrote it before its revision was raised: other key, other values."""
    recipe = json.loads(json.dumps(dict(entry.recipe)))
    recipe["encoder"]["revision"] -= 1
    values = entry.numpy("features").astype(np.float32) * np.float32(1.1)
    tensors = {**entry.tensors, "features": Tensor.from_numpy(values, "BF16")}
    return replace(with_recipe(entry, recipe), tensors=tensors)


def reasons(run: Run) -> dict[str, set[str]]:
    """Keys by reason, of all that drifted."""
    found: dict[str, set[str]] = {}
    for problem in run.document["problems"]:
        assert problem["kind"] == "recompute_mismatch"
        found.setdefault(problem["reason"], set()).add(problem["key"])
    return found


def test_a_store_as_it_was_warmed_is_what_is_computed_anew(filled: Path, tiny_siglip: Path) -> None:
    run = recompute(filled, tiny_siglip)
    told = run.document["recomputed"]
    assert run.code == 0
    assert told["compared"] == told["within_tolerance"] == COUNT
    assert told["drifted"] == told["not_recomputable"] == {}
    assert told["largest_error"] == 0


def test_ten_of_a_hundred_are_found_with_their_reasons(filled: Path, tiny_siglip: Path) -> None:
    """Five whose values were changed under a right checksum, five that older code made."""
    keys = sorted(entries(filled))
    rewrite(filled, keys[:OF_EACH], tampered)
    rewrite(filled, keys[-OF_EACH:], of_older_revision)
    assert vcache("verify", filled).code == 0
    old = entries(filled).keys() - set(keys)
    run = recompute(filled, tiny_siglip)
    assert run.code == run.document["error"]["code"] == 4
    assert run.document["checked"] == run.document["recomputed"]["compared"] == COUNT
    assert reasons(run) == {"content": set(keys[:OF_EACH]), "revision": old}
    assert all(each["max_error"] > 0.01 for each in run.document["problems"])


def test_a_repair_takes_what_was_tampered_and_leaves_what_is_old(
    filled: Path, tiny_siglip: Path
) -> None:
    """What older code made is under a key that nothing looks up: it is for prune."""
    keys = sorted(entries(filled))
    rewrite(filled, keys[:1], tampered)
    rewrite(filled, keys[1:2], of_older_revision)
    run = recompute(filled, tiny_siglip, "--repair")
    assert run.code == 4
    actions = {each["reason"]: each["action"] for each in run.document["problems"]}
    assert actions == {"content": "quarantined", "revision": "none"}
    assert len(entries(filled)) == COUNT - 1


def test_other_weights_and_settings_are_told_apart(
    filled: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    """The folder keeps its name: it is the same model to people, with other content."""
    folder = Path(shutil.copytree(tiny_siglip, tmp_path / "weights" / tiny_siglip.name))
    weights = load_file(folder / "model.safetensors")
    weights["vision_model.post_layernorm.bias"] += 1
    save_file(weights, folder / "model.safetensors")
    assert reasons(recompute(filled, folder, "--subset", "5%")).keys() == {"weights"}
    folder = Path(shutil.copytree(tiny_siglip, tmp_path / "settings" / tiny_siglip.name))
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    settings["image_mean"] = [0.4, 0.5, 0.5]
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    assert reasons(recompute(filled, folder, "--subset", "5%")).keys() == {"processor"}


def test_other_versions_are_blamed_only_where_values_differ(
    filled: Path, tiny_siglip: Path
) -> None:
    def older(entry: Entry) -> Entry:
        versions = {**entry.provenance.versions, "pillow": "1.0"}
        return replace(entry, provenance=replace(entry.provenance, versions=versions))

    keys = sorted(entries(filled))
    rewrite(filled, keys[:4], older)
    assert recompute(filled, tiny_siglip).code == 0
    rewrite(filled, keys[:2], tampered)
    run = recompute(filled, tiny_siglip)
    assert reasons(run) == {"versions": set(keys[:2])}
    assert "pillow 1.0, now" in run.document["problems"][0]["actual"]


def test_entries_without_their_source_or_of_other_models_are_counted(
    hundred: Path, filled: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    pictures = Path(shutil.copytree(hundred / "pictures", tmp_path / "pictures"))
    store = tmp_path / "moved"
    aged(pictures)
    vcache("warm", pictures, "-m", tiny_siglip, "-s", store, "--limit", "6")
    first, second, *_ = sorted(pictures.iterdir())
    first.unlink()
    second.write_bytes(second.read_bytes() + b"x")
    told = recompute(store, tiny_siglip).document["recomputed"]
    assert told["not_recomputable"] == {"source_changed": 1, "source_gone": 1}
    assert told["compared"] == 4

    def of_another(entry: Entry) -> Entry:
        recipe = json.loads(json.dumps(dict(entry.recipe)))
        recipe["encoder"]["fingerprint"] = "0" * 64
        other = with_recipe(entry, recipe)
        return replace(other, provenance=replace(other.provenance, model="another"))

    rewrite(filled, sorted(entries(filled))[:3], of_another)
    run = recompute(filled, tiny_siglip)
    assert run.code == 0
    assert run.document["recomputed"]["not_recomputable"] == {"other_model": 3}


def test_a_store_of_several_models_is_verified_model_by_model(
    hundred: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    """What one model gives, such as projected features, another may not have."""
    store, llava = tmp_path / "several", make_checkpoint(tmp_path / "llava")
    for model, limit in ((tiny_siglip, 3), (llava, 4)):
        vcache("warm", hundred / "pictures", "-m", model, "-s", store, "--limit", limit)
    for model, ours, others in ((tiny_siglip, 3, 4), (llava, 4, 3)):
        run = recompute(store, model)
        assert run.code == 0
        assert run.document["recomputed"]["within_tolerance"] == ours
        assert run.document["recomputed"]["not_recomputable"] == {"other_model": others}


def test_pixels_are_compared_exactly(hundred: Path, tiny_siglip: Path, tmp_path: Path) -> None:
    store = tmp_path / "pixels"
    stage = ("--stage", "pixels", "--limit", "5")
    vcache("warm", hundred / "pictures", "-m", tiny_siglip, "-s", store, *stage)
    assert recompute(store, tiny_siglip).document["recomputed"]["within_tolerance"] == 5

    def nudged(entry: Entry) -> Entry:
        name, tensor = next(iter(entry.tensors.items()))
        values = tensor.numpy().copy()
        values[0, 5, 5] = np.nextafter(values[0, 5, 5], np.float32(9))
        return replace(entry, tensors={**entry.tensors, name: Tensor.from_numpy(values)})

    key = min(entries(store))
    rewrite(store, [key], nudged)
    run = recompute(store, tiny_siglip)
    assert run.code == 4
    assert reasons(run) == {"content": {key}}


def test_without_a_model_it_says_what_is_missing(filled: Path) -> None:
    run = vcache("verify", filled, "--level", "recompute", "--json")
    assert run.code == 2
    assert "--model" in run.document["error"]["hint"]
