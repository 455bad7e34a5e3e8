"""What a warm leaves for a server has the same bytes for ever, and the same place."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from tests.e2e.omlx_store import Server
from tests.golden.served import (
    EPOCH_SECONDS,
    ROWS,
    SERVED,
    served_bytes,
    served_entry,
    served_recipe,
)
from vcache_cli.items import Kind, Stage
from vcache_cli.store import OsFiles, read_file

MODEL = "/models/Qwen2.5-VL-tiny"
IMAGE = hashlib.sha256(b"3x2" + bytes(range(18))).hexdigest()
KEYS = {
    "omlx": hashlib.sha256(f"{MODEL}:{IMAGE}".encode()).hexdigest(),
    "vllm-ec": "9da0994c8c735b3fc5c81a3e457385cf551f9d4b03b72abe3f52761fabdbe969",
}
"""Of the golden entries; a changed key means that no old entry is ever found again."""


@pytest.mark.parametrize("name", SERVED)
def test_it_is_written_the_same(name: str) -> None:
    assert served_entry(name).key == KEYS[name]
    assert served_bytes(name) == SERVED[name][1].read_bytes()


def test_the_id_for_vllm_is_the_digest_of_source_and_recipe() -> None:
    """By the words of the target's page: canonical JSON, SHA-256."""
    source = hashlib.sha256(b"golden source").hexdigest()
    recipe = canonical(served_recipe("vllm-ec").as_json())
    value = {"recipe": hashlib.sha256(recipe).hexdigest(), "source": source, "target": "vllm-ec"}
    assert hashlib.sha256(canonical(value)).hexdigest() == KEYS["vllm-ec"]


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


@pytest.mark.parametrize("name", SERVED)
def test_it_is_read(name: str, tmp_path: Path) -> None:
    target, golden = SERVED[name]
    relative = target.layout.path_of(KEYS[name])
    path = tmp_path / relative
    path.parent.mkdir()
    path.write_bytes(golden.read_bytes())
    found, wanted = read_file(OsFiles(), str(path), relative, target.layout), served_entry(name)
    assert (found.key, found.stage) == (KEYS[name], Stage.FEATURES)
    for tensor in wanted.tensors:
        assert found.tensors[tensor].data == wanted.tensors[tensor].data
    if name == "omlx":
        known = found.provenance
        assert known.recipe == served_recipe(name).as_json()
        assert (known.model, known.kind, known.num_tokens) == (MODEL, Kind.IMAGE, 2)
        assert known.created == "2026-01-02T03:04:05Z"


def test_omlx_finds_it_and_takes_the_fast_path(tmp_path: Path) -> None:
    golden = SERVED["omlx"][1]
    path = tmp_path / KEYS["omlx"][0] / f"{KEYS['omlx']}.safetensors"
    path.parent.mkdir()
    path.write_bytes(golden.read_bytes())
    assert Server(tmp_path).get(MODEL, IMAGE) == golden.read_bytes()
    with safe_open(golden, "np") as file:
        metadata = file.metadata()
        assert list(file.keys()) == ["feature"]
        assert file.get_slice("feature").get_shape() == [2, 3]
        assert file.get_slice("feature").get_dtype() == "BF16"
    assert (metadata["model_name"], metadata["image_hash"]) == (MODEL, IMAGE)
    assert (metadata["num_tensors"], json.loads(metadata["grid_thw"])) == ("1", [1, 2, 4])
    assert float(metadata["created_at"]) == EPOCH_SECONDS
    ours = {"created_at", "grid_thw", "image_hash", "model_name", "num_tensors"}
    assert all(field.startswith("vcache.") for field in metadata.keys() - ours)


def test_vllm_gets_one_tensor_with_deepstack_beside(tmp_path: Path) -> None:
    golden = SERVED["vllm-ec"][1]
    with safe_open(golden, "np") as file:
        assert file.metadata() is None
        assert list(file.keys()) == ["ec_cache"]
        assert file.get_slice("ec_cache").get_dtype() == "BF16"
        assert file.get_slice("ec_cache").get_shape() == [2, 9]
    values = np.frombuffer(golden.read_bytes()[-36:], "<u2").astype(np.uint32) << 16
    wanted = np.concatenate([ROWS, ROWS + 8, ROWS - 8], axis=1)
    assert values.view(np.float32).reshape(2, 9).tolist() == wanted.tolist()
