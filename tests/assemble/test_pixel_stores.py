"""Stage pixels from model folder to store and back: levels on disk, floats on read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vcache_cli.assemble import WarmOptions, load_recipe, open_store, warm
from vcache_cli.header import HeaderLimits
from vcache_cli.items import Stage
from vcache_cli.media import PillowDecoder
from vcache_cli.outcome import Status
from vcache_cli.store.reader import read_plain_header
from vcache_cli.store.verify import VerifyOptions, verify_store

OPTIONS = WarmOptions(stage=Stage.PIXELS, workers=2)
TYPES = {
    "siglip": "SiglipImageProcessor",
    "clip": "CLIPImageProcessor",
    "qwen2_vl": "Qwen2VLImageProcessor",
    "qwen3_vl": "Qwen2VLImageProcessor",
}


def model_folder(folder: Path, name: str) -> Path:
    """No weights: pixels need none."""
    folder.mkdir()
    config = {"model_type": name, "vision_config": {"patch_size": 16}}
    (folder / "config.json").write_text(json.dumps(config))
    settings = {"image_processor_type": TYPES[name]}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return folder


def write_pictures(folder: Path) -> list[Path]:
    folder.mkdir()
    rng = np.random.default_rng(4)
    paths = []
    for number, (width, height) in enumerate(((300, 200), (64, 65), (7, 500))):
        paths.append(folder / f"{number}.png")
        Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8)).save(paths[-1])
    return paths


@pytest.mark.parametrize("name", TYPES)
def test_a_store_of_levels_gives_the_pixels_of_the_preprocessor(name: str, tmp_path: Path) -> None:
    model, store = model_folder(tmp_path / "model", name), tmp_path / "store"
    paths = write_pictures(tmp_path / "pictures")
    outcomes = list(warm(paths, store=store, model=model, options=OPTIONS))
    assert [each.status for each in outcomes] == [Status.STORED] * len(paths)
    loaded = load_recipe(model, OPTIONS)
    with open_store(store) as opened:
        for path in paths:
            data = path.read_bytes()
            key = loaded.key_of(data)
            expected = loaded.preprocessor(PillowDecoder(loaded.profile).decode(data))
            found = opened.get(key)
            assert found is not None
            assert found.tensors.keys() == expected.tensors.keys()
            for tensor, array in expected.tensors.items():
                assert found.numpy(tensor).dtype == array.dtype
                assert found.numpy(tensor).tobytes() == array.tobytes()
            assert found.provenance.num_tokens == expected.num_tokens
            file = opened.root.path / opened.root.layout.path_of(key)
            header, _ = read_plain_header(file, HeaderLimits())
            dtypes = {spec.name: spec.dtype for spec in header.tensors}
            assert (dtypes["pixel_values"], dtypes["pixel_values.lut"]) == ("U8", "F32")
        assert list(verify_store(opened.root, VerifyOptions(level="data")).problems) == []


def test_a_second_warm_finds_them(tmp_path: Path) -> None:
    model, store = model_folder(tmp_path / "model", "qwen2_vl"), tmp_path / "store"
    paths = write_pictures(tmp_path / "pictures")
    for status in (Status.STORED, Status.PRESENT):
        outcomes = list(warm(paths, store=store, model=model, options=OPTIONS))
        assert {each.status for each in outcomes} == {status}


def test_a_picture_that_the_server_refuses_fails_with_its_reason(tmp_path: Path) -> None:
    model, store = model_folder(tmp_path / "model", "qwen2_vl"), tmp_path / "store"
    path = tmp_path / "thin.png"
    Image.new("RGB", (1, 300)).save(path)
    (outcome,) = warm(path, store=store, model=model, options=OPTIONS)
    assert outcome.failure is not None
    assert outcome.failure.kind == "aspect_ratio"
    assert outcome.failure.message == "absolute aspect ratio must be smaller than 200, got 300.0"
