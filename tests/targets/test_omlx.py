"""oMLX's files: where they lie, what is accepted, and that a name alone is enough for a scan."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serving.omlx_files import read_file as read_plainly
from tests.serving.omlx_files import rules_met, write_file
from vcache_cli.entry import Entry, Provenance
from vcache_cli.errors import InvalidEntryError
from vcache_cli.items import Kind, Stage
from vcache_cli.store import DiskStore, OsFiles, StoreMeta, StoreRoot, read_file, read_header
from vcache_cli.store.scan import scan_store
from vcache_cli.targets import OmlxLayout, omlx_grid, omlx_key, omlx_tensor_names
from vcache_cli.tensor import Tensor

LAYOUT = OmlxLayout()
MODEL, IMAGE = "/Users/me/.omlx/models/Qwen3.5-4bit", "ab" * 32
KEY = hashlib.sha256(f"{MODEL}:{IMAGE}".encode()).hexdigest()
ONE = np.arange(12, dtype=np.float32).reshape(3, 4)


def root_of(path: Path) -> StoreRoot:
    return StoreRoot(path, LAYOUT, StoreMeta(1, "", "omlx"))


def an_entry(**more: str) -> Entry:
    metadata = {"model_name": MODEL, "image_hash": IMAGE, **more}
    return Entry(KEY, Stage.FEATURES, {"feature": Tensor.from_numpy(ONE)}, metadata=metadata)


def found(path: Path) -> Entry:
    return read_file(OsFiles(), str(path), f"{path.parent.name}/{path.name}", LAYOUT)


def test_a_file_lies_where_the_server_looks() -> None:
    assert omlx_key(MODEL, IMAGE) == KEY
    assert LAYOUT.path_of(KEY) == f"{KEY[0]}/{KEY}.safetensors"
    assert LAYOUT.path_of(f"{MODEL}:{IMAGE}") == LAYOUT.path_of(KEY)


@given(
    model=st.text(st.characters(codec="utf-8"), min_size=1),
    image=st.from_regex("[0-9a-f]{64}", fullmatch=True),
)
def test_text_and_digest_name_the_same_file_and_a_scan_finds_the_digest(
    model: str, image: str
) -> None:
    image = image.strip()
    path = LAYOUT.path_of(f"{model}:{image}")
    assert path == LAYOUT.path_of(omlx_key(model, image))
    assert LAYOUT.key_of(path) == omlx_key(model, image)


@pytest.mark.parametrize("key", ["", "abc", KEY.upper(), ":" + IMAGE, "model:", f"../{KEY}"])
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="is not a key"):
        LAYOUT.path_of(key)


@pytest.mark.parametrize(
    "path", [f"{KEY}.safetensors", f"g/{KEY}.safetensors", f"{KEY[0]}/x.safetensors", "0/.a.tmp"]
)
def test_a_foreign_name_is_no_entry(path: str) -> None:
    assert LAYOUT.key_of(path) is None


def test_our_file_meets_the_rules_of_the_server(tmp_path: Path) -> None:
    store = DiskStore(root_of(tmp_path), mode="w")
    store.put(an_entry(grid_thw="[1, 6, 8]"))
    (path,) = tmp_path.glob("?/*.safetensors")
    rules_met(tmp_path, path)
    metadata, tensors = read_plainly(path)
    assert metadata["grid_thw"] == "[1, 6, 8]"
    assert tensors["feature"] == ("F32", (3, 4), ONE.tobytes())
    store.close()


def test_a_file_of_the_server_is_read_without_a_checksum(tmp_path: Path) -> None:
    path = write_file(tmp_path, IMAGE, MODEL, ONE, grid_thw="[1,6,8]")
    entry = found(path)
    assert entry.key == KEY
    assert entry.provenance.model == MODEL
    assert entry.provenance.created is not None
    assert omlx_grid(entry.metadata) == (1, 6, 8)
    np.testing.assert_array_equal(entry.numpy("feature"), ONE)


def test_scan_and_get_agree_on_the_key(tmp_path: Path) -> None:
    write_file(tmp_path, IMAGE, MODEL, [ONE, ONE + 1])
    (facts,) = scan_store(root_of(tmp_path)).entries
    assert facts.key == KEY
    store = DiskStore(root_of(tmp_path))
    assert store.get(KEY) is not None
    assert store.get(f"{MODEL}:{IMAGE}") is not None


def test_provenance_survives_beside_what_the_server_reads(tmp_path: Path) -> None:
    known = Provenance("cd" * 32, {"stage": "features"}, None, Kind.IMAGE, 12, None, {"mlx": "1"})
    store = DiskStore(root_of(tmp_path), mode="w")
    store.put(replace(an_entry(created_at="12.5"), provenance=known))
    store.close()
    entry = DiskStore(root_of(tmp_path)).get(KEY)
    assert entry is not None
    assert entry.provenance == replace(known, model=MODEL, created="1970-01-01T00:00:12Z")


def test_an_entry_may_be_named_by_the_text_that_the_server_looks_up(tmp_path: Path) -> None:
    store = DiskStore(root_of(tmp_path), mode="w")
    store.put(Entry(f"{MODEL}:{IMAGE}", Stage.FEATURES, {"feature": Tensor.from_numpy(ONE)}))
    store.close()
    rules_met(tmp_path, tmp_path / LAYOUT.path_of(KEY))


@pytest.mark.parametrize(
    ("names", "more", "finding"),
    [
        (["feature"], {"model_name": ""}, "header"),
        (["feature"], {"image_hash": ""}, "header"),
        (["feature"], {"num_tensors": "0"}, "header"),
        (["feature"], {"num_tensors": "2"}, "header"),
        (["feature_0", "feature_2"], {"num_tensors": "2"}, "header"),
        (["feature", "feature_0"], {"num_tensors": "2"}, "header"),
        (["feature"], {"vcache.arrays": "mlx"}, "checksum"),
        (["feature"], {"model_name": "another"}, "key_mismatch"),
        (["feature"], {"vcache.provenance": "[1]", "vcache.xxh3_128": "0"}, "header"),
        (["feature"], {"vcache.provenance": "{", "vcache.xxh3_128": "0"}, "header"),
    ],
)
def test_metadata_that_describes_no_entry_is_refused(
    names: list[str], more: dict[str, str], finding: str
) -> None:
    tensors = {name: Tensor("U8", (1,), b"a") for name in names}
    metadata = {"model_name": MODEL, "image_hash": IMAGE, "num_tensors": "1", **more}
    with pytest.raises(InvalidEntryError) as caught:
        LAYOUT.unpack(LAYOUT.path_of(KEY), metadata, tensors)
    assert caught.value.finding == finding


def test_an_entry_without_its_names_is_not_packed() -> None:
    with pytest.raises(InvalidEntryError, match="`model_name`"):
        LAYOUT.pack(Entry(KEY, Stage.FEATURES, {}))
    with pytest.raises(InvalidEntryError, match="not an array or a list"):
        LAYOUT.pack(replace(an_entry(), tensors={"features": Tensor("U8", (1,), b"a")}))


@pytest.mark.parametrize(
    "text", ["", "[]", "[1,2]", "[1,2,3,4]", "[1,2,3.0]", "[true,2,3]", '{"a":1}', "[" * 9999, "x"]
)
def test_a_grid_that_is_not_three_integers_is_ignored(text: str) -> None:
    assert omlx_grid({"grid_thw": text}) is None


def test_a_changed_byte_in_a_file_of_ours_is_found(tmp_path: Path) -> None:
    store = DiskStore(root_of(tmp_path), mode="w")
    store.put(an_entry())
    store.close()
    path = tmp_path / LAYOUT.path_of(KEY)
    path.chmod(0o600)
    good = path.read_bytes()
    for position in range(8, len(good)):
        path.write_bytes(good[:position] + bytes([good[position] ^ 1]) + good[position + 1 :])
        with pytest.raises(InvalidEntryError):
            found(path)


@pytest.mark.parametrize("padding", [0, 1, 7])
def test_a_header_without_padding_is_read(tmp_path: Path, padding: int) -> None:
    """Older writers align nothing."""
    path = write_file(tmp_path, IMAGE, MODEL, [ONE.astype(np.int8), ONE])
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    body = raw[8 : 8 + length].rstrip() + b" " * padding
    path.write_bytes(len(body).to_bytes(8, "little") + body + raw[8 + length :])
    entry = found(path)
    np.testing.assert_array_equal(entry.numpy("feature_1"), ONE)
    assert read_header(path, LAYOUT.path_of(KEY), LAYOUT).entry.key == KEY


def test_names_of_tensors_are_those_of_an_array_or_of_a_list() -> None:
    assert omlx_tensor_names(None) == ("feature",)
    assert omlx_tensor_names(1) == ("feature_0",)
    assert json.loads(json.dumps(LAYOUT.shards)) == list("0123456789abcdef")
