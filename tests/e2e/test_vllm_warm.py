"""After `vcache warm --target vllm-ec`, a client's `uuid` leads the server to the features."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from samples.make_tiny_qwen import DEEPSTACK, TEXT_CHANNELS, make_checkpoint
from tests.e2e.command import Run, aged, vcache
from vcache_cli.assemble import WarmOptions, load_recipe
from vcache_cli.items import Features
from vcache_cli.media import PillowDecoder

FILE = "encoder_cache.safetensors"
WIDTHS = {"qwen2_5_vl": TEXT_CHANNELS, "qwen3_vl": TEXT_CHANNELS * (1 + len(DEEPSTACK))}
"""Of a row: DeepStack features lie beside the others."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {family: make_checkpoint(folder / family, family=family) for family in WIDTHS}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "ec"


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return tmp_path / "manifest.jsonl"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory, media: Path) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for name in ("hills.jpg", "chart.png"):
        (folder / name).write_bytes((media / name).read_bytes())
    return aged(folder)


def warm(root: Path, model: Path, *more: object, backend: str = "numpy") -> Run:
    chosen = ["--backend", backend] if backend else []
    return vcache("warm", *more, "-m", model, "--target", "vllm-ec", "-s", root, "--json", *chosen)


def lines_of(manifest: Path) -> list[dict[str, Any]]:
    """In the order of their keys; the file has them as they were done."""
    lines = [json.loads(line) for line in manifest.read_text("ascii").splitlines()]
    return sorted(lines, key=lambda line: str(line["key"]))


def entries(root: Path) -> list[Path]:
    """What the server can find: its own scheme of paths, and nothing else."""
    return sorted(root.glob(f"*/{FILE}"))


@pytest.mark.parametrize("family", WIDTHS)
def test_a_uuid_of_the_manifest_leads_to_its_features(
    family: str, root: Path, manifest: Path, models: dict[str, Path], pictures: Path
) -> None:
    run = warm(root, models[family], pictures, "--manifest", manifest)
    assert (run.code, run.items["stored"]) == (0, 2)
    lines = lines_of(manifest)
    assert sorted(root / line["key"] / FILE for line in lines) == entries(root)
    for line in lines:
        options = WarmOptions(target="vllm-ec", backend="numpy")
        features = encoded(Path(line["source"]), models[family], options)
        deep = [f"deepstack_{number}" for number in range(len(features.tensors) - 1)]
        parts = [features.tensors[name] for name in ("features", *deep)]
        with safe_open(root / line["key"] / FILE, "np") as file:
            assert list(file.keys()) == ["ec_cache"]
            found = file.get_slice("ec_cache")
            assert (found.get_dtype(), found.get_shape()) == (
                "BF16",
                [features.num_tokens, WIDTHS[family]],
            )
        stored = narrow(root / line["key"] / FILE)
        wanted = np.concatenate(parts, axis=1)
        assert np.abs(stored - wanted).max() <= np.abs(wanted).max() * 2**-8
    again = warm(root, models[family], pictures, "--manifest", manifest)
    assert (again.code, again.items["present"]) == (0, 2)
    assert lines_of(manifest) == lines


def encoded(picture: Path, model: Path, options: WarmOptions) -> Features:
    """Features of a picture, float32, by their names."""
    loaded = load_recipe(model, options)
    assert loaded.encoder
    frames = PillowDecoder(loaded.profile).decode(picture.read_bytes())
    return loaded.encoder.encode([loaded.preprocessor(frames)])[0]


def narrow(path: Path) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The tensor, its bfloat16 widened."""
    with safe_open(path, "np") as file:
        shape = file.get_slice("ec_cache").get_shape()
    data = path.read_bytes()
    raw = np.frombuffer(data[8 + int.from_bytes(data[:8], "little") :], "<u2")
    return (raw.astype(np.uint32) << 16).view(np.float32).reshape(shape)


def test_a_check_follows_the_store(root: Path, models: dict[str, Path], pictures: Path) -> None:
    model, hills = models["qwen2_5_vl"], pictures / "hills.jpg"
    assert warm(root, model, hills).code == 0
    words = ["-m", model, "--target", "vllm-ec", "--backend", "numpy", "-s", root, "--json"]
    assert vcache("check", hills, *words).code == 0
    run = vcache("check", pictures, *words)
    assert run.code == 5
    assert [Path(each["source"]).name for each in run.document["cold_items"]] == ["chart.png"]
    assert vcache("stats", root, "--json").document["target"] == "vllm-ec"
    assert vcache("verify", root, "--json").code == 0


def test_a_store_is_of_one_model(
    tmp_path: Path, root: Path, models: dict[str, Path], pictures: Path
) -> None:
    """No file says whose it is: the server would take another model's for its own."""
    hills, other = pictures / "hills.jpg", tmp_path / "other"
    make_checkpoint(other, family="qwen2_5_vl", seed=1)
    assert warm(root, models["qwen2_5_vl"], hills).code == 0
    for model in (models["qwen3_vl"], other):
        for more in ([], ["--dry-run"]):
            refused = warm(root, model, hills, *more)
            assert refused.code == 16
            assert "is of another model: " in refused.document["error"]["message"]
            assert "--store" in refused.document["error"]["hint"]
        words = ["-m", model, "--target", "vllm-ec", "--backend", "numpy", "-s", root, "--json"]
        (cold,) = vcache("check", hills, *words).document["cold_items"]
        assert "the store is of another model: " in cold["reason"]
    assert warm(root, models["qwen2_5_vl"], hills, "--dtype", "float16").code == 16
    assert len(entries(root)) == 1


def test_one_model_s_ways_to_prepare_pictures_share_a_store(
    tmp_path: Path, root: Path, manifest: Path, pictures: Path
) -> None:
    """The `uuid` covers them: a client of the one never gets an entry of the other."""
    model, hills = make_checkpoint(tmp_path / "m", family="qwen2_5_vl"), pictures / "hills.jpg"
    assert warm(root, model, hills, "--manifest", manifest).items["stored"] == 1
    settings = json.loads((model / "preprocessor_config.json").read_text())
    (model / "preprocessor_config.json").write_text(json.dumps(settings | {"max_pixels": 12544}))
    first = lines_of(manifest)
    assert warm(root, model, hills, "--manifest", manifest).items["stored"] == 1
    assert first[0]["key"] != lines_of(manifest)[0]["key"]
    assert len(entries(root)) == 2


def test_a_folder_that_the_server_fills_is_filled_beside_it(
    root: Path, models: dict[str, Path], pictures: Path
) -> None:
    """Which model the server's own entries are of is not known; what vcache fills is one model."""
    theirs = root / ("ab" * 32) / FILE
    theirs.parent.mkdir(parents=True)
    assert warm(root.parent / "made", models["qwen2_5_vl"], pictures / "hills.jpg").code == 0
    theirs.write_bytes(entries(root.parent / "made")[0].read_bytes())
    before = theirs.stat()
    (root / ("cd" * 32)).mkdir()
    assert warm(root, models["qwen2_5_vl"], pictures).items["stored"] == 2
    assert (theirs.stat().st_ino, theirs.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert warm(root, models["qwen3_vl"], pictures).code == 16


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_without_torch_the_way_out_is_named(
    root: Path, models: dict[str, Path], pictures: Path
) -> None:
    run = warm(root, models["qwen2_5_vl"], pictures, backend="")
    assert run.code == 15
    told = run.document["error"]
    assert "vcache-cli[torch]" in told["message"]
    assert "--backend numpy" in told["hint"]
    assert not root.exists()


def test_features_alone_are_what_the_server_takes(
    root: Path, tiny_siglip: Path, models: dict[str, Path], pictures: Path
) -> None:
    run = warm(root, models["qwen2_5_vl"], pictures, "--stage", "pixels")
    assert run.code == 2
    assert "holds features" in run.document["error"]["message"]
    assert warm(root, tiny_siglip, pictures).code == 15
    assert not root.exists()
