"""A directory that oMLX filled and vcache never wrote: what its owner is told, and what goes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.e2e.command import keys, vcache
from tests.e2e.isolation import on_a_read_only_disk
from tests.e2e.omlx_store import (
    CAP,
    Server,
    Written,
    image,
    path_of,
    snapshot,
    wrapped,
    write,
    write_store,
)

GIB = 1024**3
READING = [
    ["stats"],
    ["stats", "--scan"],
    ["ls", "--sort", "size:desc"],
    ["verify"],
    ["verify", "--level", "header"],
    ["verify", "--level", "stat"],
    ["prune", "--max-size", "100KB", "--dry-run"],
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """About 1,600 files; read only."""
    folder = tmp_path_factory.mktemp("omlx")
    return write_store(folder / "vision_features", folder / "models")


@pytest.fixture
def copy(store: Written, tmp_path: Path) -> Path:
    """The same files, of the test's own."""
    shutil.copytree(store.root, tmp_path / "copy", symlinks=True, ignore=_pipes)
    return tmp_path / "copy"


def _pipes(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if Path(folder, name).is_fifo()]


def _document(store: Written, *words: object) -> dict[str, Any]:
    run = vcache(words[0], store.root, *words[1:], "--json")
    assert run.document["store"] == str(store.root)
    return run.document


def _named(kind: str, document: dict[str, Any]) -> set[str]:
    return {each["path"] for each in document["problems"] if each["kind"] == kind}


def test_stats_count_what_the_writer_wrote(store: Written) -> None:
    document = _document(store, "stats", "--scan")
    assert document["target"] == "omlx"
    assert document["index"]["state"] == "memory"
    assert document["entries"] == len(store.entries)
    assert document["bytes"]["logical"] == sum(store.entries.values())
    groups = {each.get("model"): each for each in document["by_model"]}
    for model, paths in store.of_model.items():
        assert groups[model]["entries"] == len(paths)
        assert groups[model]["bytes"] == sum(store.entries[path] for path in paths)
    ages = {each["older_than_seconds"]: each["entries"] for each in document["by_age"]}
    assert ages[0] == len(store.entries)


def test_stats_show_the_view_of_the_server(store: Written) -> None:
    server = _document(store, "stats")["server"]
    simulated = Server(store.root)
    assert server["capacity_bytes"] == CAP
    assert server["indexed"] == {"entries": len(simulated.index), "bytes": simulated.total}
    order = [str(path.relative_to(store.root)) for path, _ in simulated.index.values()]
    assert [each["path"] for each in server["evicts_first"]] == order[:20]
    assert server["evicts_next"] == {"entries": 0, "bytes": 0}
    never = store.kinds["never_indexed"]
    sizes = sum((store.root / path).stat().st_size for path in never)
    assert server["never_indexed"] == {"entries": len(never), "bytes": sizes}


def test_people_read_the_same(store: Written) -> None:
    shown = vcache("stats", store.root).out
    assert "of 10.0 GiB used (fixed: the server's own cache size setting" in shown
    assert f"{len(store.kinds['never_indexed'])} files" in shown
    assert "after its next start" in shown
    for model in store.of_model:
        assert model in shown
    listed = vcache("verify", store.root).out
    assert "structure only: the files carry none" in listed
    for kind, paths in store.kinds.items():
        assert kind in listed
        assert len([line for line in listed.splitlines() if line.startswith(kind)]) == min(
            len(paths), 20
        )


def test_ls_sorts_by_size_and_by_writing(store: Written) -> None:
    for order, known in (("size", store.entries), ("used", store.mtimes)):
        rows = _document(store, "ls", "--sort", f"{order}:desc", "--limit", 300)["entries"]
        by_value = sorted(known, key=lambda path: -known[path])[:300]
        assert [known[row["path"]] for row in rows] == [known[path] for path in by_value]
    models = Counter(row.get("model") for row in _document(store, "ls", "--limit", 9999)["entries"])
    assert {name: models[name] for name in store.of_model} == {
        name: len(paths) for name, paths in store.of_model.items()
    }


def test_verify_finds_all_that_is_wrong_and_nothing_else(store: Written) -> None:
    document = _document(store, "verify")
    assert document["error"]["code"] == 4
    assert document["structure_only"]
    assert document["checked"] == len(store.entries)
    damaged = store.kinds["header"] | store.kinds["key_mismatch"]
    assert document["ok"] == len(store.entries) - len(damaged) == document["without_checksum"]
    assert document["kinds"].pop("token_counts") == 1  # of all of one model together
    assert document["kinds"].keys() == store.kinds.keys()
    for kind, paths in store.kinds.items():
        assert document["kinds"][kind] == len(paths)
        assert _named(kind, document) == paths, kind


def test_verify_says_how_a_grid_was_judged(store: Written) -> None:
    problems = _document(store, "verify", "--level", "header")["problems"]
    told = [each for each in problems if each["kind"] == "grid_mismatch"]
    assert any("k = 2, as in " in each["expected"] for each in told)
    assert any("1 * 12 * 16 = 192 patches, 12 rows, k = 4" in each["actual"] for each in told)
    widths = [each for each in problems if each["kind"] == "width_mismatch"]
    assert {each["actual"] for each in widths} == {"width 18"}
    names = {each["path"]: each for each in problems if each["kind"] == "wrong_name"}
    gundam = path_of(store.models["ocr"], wrapped(image(30_200), "gundam"))
    assert "image mode `gundam`" in names[gundam]["actual"]
    assert names[gundam]["expected"] == path_of(store.models["ocr"], image(30_200))


def test_inspect_tells_grid_hash_and_model(store: Written) -> None:
    qwen = store.models["qwen"]
    path = path_of(qwen, image(0))
    by_file = vcache("inspect", store.root / path, "--json").document
    assert by_file["server"] == {
        "model_name": qwen,
        "image_hash": image(0),
        "num_tensors": "1",
        "grid_thw": [1, 6, 8],
        "rows": 12,
        "width": 16,
        "merge": 2,
    }
    assert by_file["tensors"] == [{"name": "feature", "dtype": "BF16", "shape": [12, 16]}]
    assert "grid thw" in vcache("inspect", store.root, path[2:20]).out


def test_an_image_hash_finds_the_entries_of_all_models_and_the_mode(store: Written) -> None:
    document = _document(store, "inspect", image(0))
    found = {each["model"]: each["matched"] for each in document["entries"]}
    assert found == {
        store.models["qwen"]: "its image hash",
        store.models["ocr"]: "the image hash, wrapped for image mode `gundam`",
    }
    alone = _document(store, "inspect", wrapped(image(1), "base"))
    assert alone["matched"] == "its image hash"
    assert vcache("inspect", store.root, "ab" * 32).code == 2


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_reading_leaves_the_directory_as_it_is(store: Written, words: list[str]) -> None:
    before = snapshot(store.root)
    damage_seen = words[0] == "verify" and "stat" not in words
    assert vcache(words[0], store.root, *words[1:]).code == (4 if damage_seen else 0)
    assert snapshot(store.root) == before


def test_reading_needs_no_writable_disk(store: Written) -> None:
    launcher, count = on_a_read_only_disk(store.root), len(store.kinds["never_indexed"])
    for words in (
        ["stats", "--scan"],
        ["ls"],
        ["verify"],
        ["prune", "--max-size", "9", "--dry-run"],
    ):
        run = vcache(words[0], store.root, *words[1:], "--json", launcher=launcher)
        assert run.code == (4 if words[0] == "verify" else 0)
        assert run.document.get("kinds", {}).get("never_indexed", count) == count


def test_a_prune_removes_what_its_plan_says_under_a_reading_server(copy: Path) -> None:
    half = sum(path.stat().st_size for path in copy.glob("?/*.safetensors")) // 2
    words = ("prune", copy, "--max-size", half)
    before = {str(path.relative_to(copy)) for path in copy.rglob("*") if not path.is_dir()}
    plan = vcache(*words, "--dry-run", "-q").out.split()
    assert len(plan) > 500
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    reader = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.omlx_reader", copy],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert reader.stdout
    assert reader.stdout.readline() == "ready\n"
    done = vcache(*words, "--yes", "--json")
    out, err = reader.communicate("x")
    counts = json.loads(out)
    assert (err, done.code, reader.returncode) == ("", 0, 0)
    assert counts["hits"] + counts["misses"] == counts["known"] * counts["rounds"]
    doomed = {f"{key[0]}/{key}.safetensors" for key in plan}
    left = {str(path.relative_to(copy)) for path in copy.rglob("*") if not path.is_dir()}
    assert {path for path in left if not path.startswith(".vcache/")} - {"CACHEDIR.TAG"} == (
        before - doomed
    )
    assert counts["left"] == len(Server(copy).index)
    assert done.document["after"]["bytes"] <= half


def test_a_prune_says_that_age_is_since_written(store: Written) -> None:
    words = ("prune", store.root, "--unused-for", "30d", "--dry-run")
    assert "since written: this server marks no use" in vcache(*words).out
    document = vcache(*words, "--json").document
    old = [path for path, mtime in store.mtimes.items() if mtime < time.time() - 30 * 86_400]
    assert document["recency"] == "written"
    assert len(document["plan"]) + document["plan_omitted"] == len(old)


def test_what_was_written_just_now_is_never_pruned(copy: Path) -> None:
    young = sorted(copy.glob("?/*.safetensors"))[:25]
    young = [path for path in young if path.is_file() and len(path.stem) == 64]
    for path in young:
        os.utime(path)
    plan = vcache("prune", copy, "--older-than", "0s", "--dry-run", "--json").document
    assert plan["skipped"]["grace"] == len(young)
    assert not {path.stem for path in young} & set(keys(plan["plan"]))


@pytest.mark.parametrize("gib", [3, 10, 14])
def test_the_forecast_is_what_the_server_does(tmp_path: Path, gib: int) -> None:
    """Sparse files: none of these bytes is written."""
    root = tmp_path / "vision_features"
    for number in range(4 * gib):
        write(root, "some/model", image(number), GIB // 4)
    for copied, path in enumerate(sorted(root.glob("?/*"))[:2]):
        os.link(path, path.with_name(f"copy {copied}.safetensors"))
    server = vcache("stats", root, "--json").document["server"]
    order = [str(path.relative_to(root)) for path, _ in Server(root).index.values()]
    evicted = [str(path.relative_to(root)) for path in Server(root).evict()]
    assert [each["path"] for each in server["evicts_first"]] == order[: max(20, len(evicted))]
    assert server["evicts_next"]["entries"] == len(evicted)
    assert (len(evicted) > 0) == (gib >= 10)
