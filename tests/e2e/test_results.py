"""What lies in a store: stages, dtypes and backends, as the library reads them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import vcache_cli
from tests.e2e.command import entries, vcache
from vcache_cli import Entry, Stage, WarmOptions, open_store

TOKENS, HIDDEN = 64, 32


def _all(store: Path) -> dict[str, Entry]:
    """Each entry by the digest of its picture."""
    found = {}
    with open_store(store) as reader:
        for key in entries(store):
            entry = reader.get(key)
            assert entry is not None
            assert entry.key == key
            assert entry.provenance.source_sha256 is not None
            found[entry.provenance.source_sha256] = entry
    return found


def test_features_are_what_the_library_reads(corpus: Path, warmed_once: Path) -> None:
    read = _all(warmed_once)
    assert len(read) == len([path for path in corpus.rglob("*") if path.is_file()])
    for entry in read.values():
        features = entry.numpy("features")
        assert features.shape == (TOKENS, HIDDEN)
        assert features.dtype == np.float32
        assert entry.tensors["features"].dtype == "BF16"
        assert np.isfinite(features).all()
        assert features.std() > 0.01
        assert entry.numpy("pooled").shape == (HIDDEN,)
        assert entry.stage is Stage.FEATURES
    with open_store(warmed_once) as reader:
        assert reader.get("0" * 64) is None


def test_another_dtype_is_another_entry_of_the_same_values(
    media: Path, tiny_siglip: Path, store: Path
) -> None:
    args = ("warm", media / "hills.jpg", "-m", tiny_siglip, "-s", store)
    for dtype in ("float32", "bfloat16", "float16"):
        assert vcache(*args, "--dtype", dtype).code == 0
    with open_store(store) as reader:
        read = [reader.get(key) for key in entries(store)]
    values = {each.tensors["features"].dtype: each.numpy("features") for each in read if each}
    assert sorted(values) == ["BF16", "F16", "F32"]
    for dtype, bits in (("BF16", 8), ("F16", 11)):
        np.testing.assert_allclose(values[dtype], values["F32"], rtol=2.0**-bits, atol=1e-6)


@pytest.mark.needs_mlx
def test_backends_agree_and_share_keys(media: Path, tiny_siglip: Path, tmp_path: Path) -> None:
    read = {}
    for backend in ("numpy", "mlx"):
        store = tmp_path / backend
        args = ("warm", media, "-m", tiny_siglip, "-s", store, "--dtype", "float32", "--json")
        run = vcache(*args, "--backend", backend)
        assert run.code == 0
        assert run.document["encoder"]["backend"] == backend
        read[backend] = _all(store)
    assert read["numpy"].keys() == read["mlx"].keys()
    for digest, entry in read["numpy"].items():
        other = read["mlx"][digest]
        assert entry.key == other.key
        for name in ("features", "pooled"):
            expected, found = entry.numpy(name), other.numpy(name)
            assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()


def test_pixels_need_no_weights_and_serve_two_models(
    media: Path, tiny_siglip: Path, store: Path, tmp_path: Path
) -> None:
    model = tmp_path / "without-weights"
    shutil.copytree(tiny_siglip, model, ignore=shutil.ignore_patterns("*.safetensors"))
    args = ("-s", store, "--stage", "pixels", "--json")
    run = vcache("warm", media, "-m", model, *args)
    assert run.code == 0
    for entry in _all(store).values():
        pixels = entry.numpy("pixel_values")
        assert pixels.dtype == np.float32
        assert pixels.shape == (3, 64, 64)
        assert -1 <= pixels.min() <= pixels.max() <= 1
    other = vcache("warm", media, "-m", tiny_siglip, *args)
    assert other.items["stored"] == 0
    assert other.items["present"] == run.items["stored"] + run.items["copy"]


def test_bytes_do_not_depend_on_how_the_work_is_cut(
    media: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    read = []
    for flags in (("--batch-size", "1", "--workers", "1"), ("--batch-size", "7")):
        store = tmp_path / flags[1]
        args = ("warm", media, "-m", tiny_siglip, "-s", store, "--dtype", "float32")
        assert vcache(*args, "--backend", "numpy", *flags).code == 0
        read.append(_all(store))
    for digest, entry in read[0].items():
        expected, found = entry.numpy("features"), read[1][digest].numpy("features")
        assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


def test_the_library_warms_and_reads(media: Path, tiny_siglip: Path, store: Path) -> None:
    options = WarmOptions(dtype="float32")
    warm = vcache_cli.warm([str(media)], store=store, model=tiny_siglip, options=options)
    by_name = {os.path.basename(outcome.item.path): outcome for outcome in warm}
    assert by_name["clip.mp4"].status == "skipped"
    key = by_name["hills.jpg"].key
    assert key is not None
    assert key == by_name["hills-copy.jpg"].key
    with open_store(store) as reader:
        entry = reader.get(key)
    assert entry is not None
    assert entry.numpy("features").shape == (TOKENS, HIDDEN)
    report = vcache_cli.check([str(media)], store=store, model=tiny_siglip, options=options)
    assert report.coverage == 1


def test_a_model_of_the_local_hub_cache_has_the_same_keys(
    corpus: Path, tiny_siglip: Path, warmed_once: Path, tmp_path: Path
) -> None:
    repository, commit = tmp_path / "hub/models--acme--tiny-siglip", "5ec0de" * 6 + "abcd"
    shutil.copytree(tiny_siglip, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(commit, "ascii")
    args = ("check", corpus, "-m", "acme/tiny-siglip", "-s", warmed_once, "--json")
    hub = {"HF_HUB_CACHE": str(tmp_path / "hub")}
    found = vcache(*args, env=hub)
    assert (found.code, found.document["coverage"]) == (0, 1)
    missing = vcache(*args, env={"HF_HUB_CACHE": str(tmp_path)})
    assert missing.code == 15
    assert "acme/tiny-siglip" in missing.document["error"]["message"]


def test_equal_provenance_gives_equal_bytes(media: Path, tiny_siglip: Path, tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        args = ("warm", media, "-m", tiny_siglip, "-s", tmp_path / name, "--backend", "numpy")
        flags = ("--batch-size", "4", "--workers", "1")
        run = vcache(*args, *flags, env={"SOURCE_DATE_EPOCH": "1700000000"})
        assert run.code == 0
        made.append({key: path.read_bytes() for key, path in entries(tmp_path / name).items()})
    assert made[0] == made[1]
    assert made[0]


def test_a_store_can_be_moved(corpus: Path, tiny_siglip: Path, warmed: Path) -> None:
    moved = warmed.rename(warmed.with_name("elsewhere"))
    args = ("warm", corpus, "-m", tiny_siglip, "-s", moved, "--json")
    again = vcache(*args)
    assert (again.code, again.items["stored"], again.document["bytes"]["read"]) == (0, 0, 0)
