"""The layout of vLLM's encoder cache: which names are entries, and what their files may hold."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from tests.targets.ec_files import FILE, content, digest_id, put
from vcache_cli.errors import EncodeError, InvalidEntryError
from vcache_cli.items import Features, Stage
from vcache_cli.protocols import Evidence, Exclusive, GroupTarget, OwnDirectory, WarmTarget
from vcache_cli.recipe import EncoderRecipe, Recipe
from vcache_cli.store.files import OsFiles
from vcache_cli.store.reader import read_file, read_header
from vcache_cli.targets import VllmEcLayout, VllmEcTarget

LAYOUT = VllmEcLayout()

ODD_IDS = [
    "a",
    "img 1",
    "ünïcode-画像",
    "-rf",
    "--target",
    "a\nb",
    "\x1b[31mred",
    "..a",
    "a..",
    ".hidden",
    "%2e%2e%2f",
    "C:\\temp",
    "*",
    "'; DROP TABLE entries; --",
    "A" * 255,
    "encoder_cache.safetensors",
    "Ab" * 32,
]


@pytest.mark.parametrize("key", [digest_id(1), *ODD_IDS])
def test_an_id_is_the_name_of_its_directory(key: str) -> None:
    path = LAYOUT.path_of(key)
    assert path == f"{key}/{FILE}"
    assert LAYOUT.key_of(path) == key
    assert LAYOUT.directory_of(key) == key


@pytest.mark.parametrize("key", ["", ".", "..", "a/b", "/", "/etc", "a\0b", "A" * 256, ".vcache"])
def test_what_names_no_directory_of_the_root_is_no_id(key: str) -> None:
    with pytest.raises(ValueError, match="not an id"):
        LAYOUT.path_of(key)
    assert LAYOUT.key_of(f"{key}/{FILE}") is None


@pytest.mark.parametrize(
    "path",
    [
        FILE,
        f"a/b/{FILE}",
        f"a//{FILE}",
        "a/encoder_cache.safetensors.tmp",
        "a/Encoder_cache.safetensors",
        "a/",
        "a",
        "",
        f"/{FILE}",
    ],
)
def test_only_the_exact_place_is_an_entry(path: str) -> None:
    assert LAYOUT.key_of(path) is None


@given(st.text())
def test_no_key_leaves_the_root(key: str) -> None:
    try:
        path = LAYOUT.path_of(key)
    except ValueError:
        return
    assert os.path.normpath(path) == path
    assert path.count("/") == 1
    assert LAYOUT.key_of(path) == key


def test_names_that_tell_are_digests_and_uuids() -> None:
    telling = [digest_id(1), digest_id(2) * 2, "123e4567-e89b-12d3-a456-426614174000"]
    assert all(map(LAYOUT.is_telling, telling))
    assert not any(map(LAYOUT.is_telling, ["a" * 63, "A" * 64, "systemd-private-ab", "tmpab12cd"]))


def test_the_servers_own_file_is_read(tmp_path: Path) -> None:
    """Written and read back by the library that the server calls."""
    path = tmp_path / "an-id" / FILE
    path.parent.mkdir()
    array = np.arange(24, dtype=np.float16).reshape(3, 8)
    save_file({"ec_cache": array}, path)
    entry = read_file(OsFiles(), str(path), f"an-id/{FILE}", LAYOUT)
    assert (entry.key, entry.stage, entry.provenance.model) == ("an-id", Stage.FEATURES, None)
    assert (entry.numpy("ec_cache") == load_file(path)["ec_cache"]).all()


def test_metadata_is_neither_needed_nor_believed(tmp_path: Path) -> None:
    data = content(metadata={"format": "pt", "model_name": "x", "vcache.key": "other"})
    path = put(tmp_path, "an-id", data)
    entry = read_file(OsFiles(), str(path), f"an-id/{FILE}", LAYOUT)
    assert entry.key == "an-id"
    assert entry.provenance.model is None


WRONG = {
    "another name": content(name="features"),
    "one dimension": content(shape=[24]),
    "three dimensions": content(shape=[1, 3, 8]),
    "no dimension": content(shape=[]),
    "integers": content(dtype="I16"),
    "no tensor": b"\x08\0\0\0\0\0\0\0{}      ",
    "cut short": content()[:-1],
    "more after": content() + b"x",
    "empty": b"",
    "no length": b"\x01\x02",
    "huge length": b"\xff" * 8 + b"{}",
    "no JSON": b"\x08\0\0\0\0\0\0\0notjson!",
    "zeros": b"\0" * 4096,
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG)
def test_a_file_that_would_stop_the_server_is_damage_by_its_header_alone(
    data: bytes, tmp_path: Path
) -> None:
    """The server checks nothing when it loads: a wrong shape ends its engine."""
    path = put(tmp_path, "an-id", data)
    with pytest.raises(InvalidEntryError):
        read_header(path, f"an-id/{FILE}", LAYOUT)
    with pytest.raises(InvalidEntryError):
        read_file(OsFiles(), str(path), f"an-id/{FILE}", LAYOUT)


def test_an_item_without_tokens_is_an_entry(tmp_path: Path) -> None:
    path = put(tmp_path, "an-id", content(rows=0))
    assert read_header(path, f"an-id/{FILE}", LAYOUT).header.tensors[0].shape == (0, 8)


def test_two_tensors_are_no_entry(tmp_path: Path) -> None:
    path = put(tmp_path, "an-id")
    array = np.zeros((2, 2), np.float32)
    save_file({"ec_cache": array, "more": array}, path)
    with pytest.raises(InvalidEntryError):
        read_header(path, f"an-id/{FILE}", LAYOUT)


def test_packing_is_the_inverse_of_unpacking(tmp_path: Path) -> None:
    path = put(tmp_path, "an-id")
    entry = read_file(OsFiles(), str(path), f"an-id/{FILE}", LAYOUT)
    metadata, tensors = LAYOUT.pack(entry)
    assert metadata == {}
    again = LAYOUT.unpack(f"an-id/{FILE}", metadata, tensors)
    assert again.tensors["ec_cache"].data == entry.tensors["ec_cache"].data
    with pytest.raises(InvalidEntryError):
        LAYOUT.pack(type(entry)("an-id", Stage.FEATURES, {}))


def test_the_target_is_looked_after_and_filled() -> None:
    target = VllmEcTarget()
    assert isinstance(target, WarmTarget)
    assert isinstance(target, Exclusive)
    assert not isinstance(target, GroupTarget)
    assert isinstance(target.layout, OwnDirectory)
    assert (target.name, target.key_from, target.unit, target.profile) == (
        "vllm-ec",
        "digest",
        "item",
        None,
    )
    assert target.layout.shards is None
    assert target.layout.checksum_field is None
    assert pickle.loads(pickle.dumps(target)) == target  # noqa: S301  our own bytes


def recipe_of(**encoder: str) -> Recipe:
    fields = {"tower": "t", "fingerprint": "f" * 64, "output": "projected"}
    fields |= {"compute_dtype": "F32", "stored_dtype": "BF16"}
    return Recipe(
        stage=Stage.FEATURES,
        target="vllm-ec",
        profile="transformers-pil-5",
        profile_revision=1,
        family="qwen3_vl",
        family_revision=1,
        settings={"size": 1},
        encoder=EncoderRecipe(revision=1, **{**fields, **encoder}),
    )


def test_the_uuid_is_the_digest_of_source_and_recipe() -> None:
    recipe, source = recipe_of(), "a" * 64
    text = json.dumps({"recipe": recipe.digest, "source": source, "target": "vllm-ec"})
    wanted = hashlib.sha256(text.replace(" ", "").encode()).hexdigest()
    assert VllmEcTarget().key(recipe, Evidence(source)) == wanted
    other = replace(recipe, settings={"size": 2})
    assert VllmEcTarget().key(other, Evidence(source)) != wanted


def test_a_store_is_of_the_weights_and_the_form_of_features() -> None:
    options = VllmEcTarget().store_options(recipe_of())
    assert options == {
        "family": "qwen3_vl",
        "fingerprint": "f" * 64,
        "output": "projected",
        "stored_dtype": "BF16",
    }
    for change in ({"fingerprint": "e" * 64}, {"output": "hidden"}, {"stored_dtype": "F16"}):
        assert VllmEcTarget().store_options(recipe_of(**change)) != options
    prepared = replace(recipe_of(compute_dtype="BF16"), settings={"size": 2}, family_revision=2)
    assert VllmEcTarget().store_options(prepared) == options
    pixels = replace(recipe_of(), stage=Stage.PIXELS, encoder=None)
    assert VllmEcTarget().store_options(pixels) == {}


def test_deepstack_features_lie_beside_the_others_in_the_order_of_their_layers() -> None:
    parts = {f"deepstack_{number}": np.full((2, 3), number, np.float32) for number in (10, 2, 0)}
    value = Features({**parts, "features": np.full((2, 3), -1, np.float32)})
    made = VllmEcTarget().tensors(recipe_of(), value)
    assert list(made) == ["ec_cache"]
    row = [-1.0] * 3 + [0.0] * 3 + [2.0] * 3 + [10.0] * 3
    assert made["ec_cache"].numpy().tolist() == [row, row]


@pytest.mark.parametrize("shape", [(3,), (1, 2, 3)])
def test_features_of_other_than_two_dimensions_would_end_the_server(shape: tuple[int, ...]) -> None:
    value = Features({"features": np.zeros(shape, np.float32)})
    with pytest.raises(EncodeError, match="two dimensions"):
        VllmEcTarget().tensors(recipe_of(), value)
