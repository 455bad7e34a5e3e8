"""The native target: a key that binds everything, a path below the root, files that say it all."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.digest import digest_bytes, digest_json
from vcache_cli.entry import Entry, Provenance
from vcache_cli.errors import EncodeError, InvalidEntryError
from vcache_cli.items import Features, Kind, Pixels, Stage
from vcache_cli.protocols import Evidence
from vcache_cli.recipe import EncoderRecipe, Recipe
from vcache_cli.targets import NativeLayout, NativeTarget, native_key
from vcache_cli.tensor import Tensor

LAYOUT = NativeLayout()
HEX = st.binary(min_size=32, max_size=32).map(bytes.hex)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
RECIPES = st.dictionaries(TEXT, st.integers() | TEXT | st.lists(st.floats(-9, 9)), max_size=4)

FEATURES = Recipe(
    stage=Stage.FEATURES,
    target="native",
    profile="transformers-pil-5",
    profile_revision=1,
    family="siglip",
    family_revision=1,
    settings={"size": 224},
    encoder=EncoderRecipe("siglip", 1, "f" * 64, "hidden", "F32", "BF16"),
)
PIXELS = replace(FEATURES, stage=Stage.PIXELS, encoder=None)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    """Any entry that the native layout can hold."""
    recipe, source, stage = draw(RECIPES), draw(HEX), draw(st.sampled_from(Stage))
    provenance = Provenance(
        source,
        recipe,
        draw(st.none() | TEXT),
        draw(st.none() | st.sampled_from(Kind)),
        draw(st.none() | st.integers(0, 10**6)),
        "2026-01-02T03:04:05Z",
        draw(st.dictionaries(TEXT, TEXT, max_size=3)),
    )
    tensors = {"features": Tensor("U8", (3,), draw(st.binary(min_size=3, max_size=3)))}
    return Entry(native_key(stage, source, digest_json(recipe)), stage, tensors, provenance)


@given(st.sampled_from(Stage), HEX, HEX)
def test_the_key_is_the_digest_of_canonical_json(stage: Stage, source: str, recipe: str) -> None:
    value = {"format": 1, "stage": stage.value, "source": source, "recipe": recipe}
    assert native_key(stage, source, recipe) == digest_json(value)


@given(entries())
def test_unpacking_what_was_packed_gives_the_same_entry(entry: Entry) -> None:
    metadata, tensors = LAYOUT.pack(entry)
    again = LAYOUT.unpack(LAYOUT.path_of(entry.key), metadata, tensors)
    assert (again.key, again.stage, again.tensors) == (entry.key, entry.stage, entry.tensors)
    assert again.provenance == entry.provenance
    assert again.metadata == metadata
    assert LAYOUT.pack(again)[0] == metadata


@given(HEX)
def test_path_and_key_are_inverse(key: str) -> None:
    path = LAYOUT.path_of(key)
    assert re.fullmatch(r"[0-9a-f]{2}/[0-9a-f]{64}\.safetensors", path)
    assert LAYOUT.key_of(path) == key
    assert path.partition("/")[0] in LAYOUT.shards


@given(st.text())
def test_a_path_is_made_of_keys_only(text: str) -> None:
    with pytest.raises(ValueError, match="is not a key"):
        LAYOUT.path_of(text)


@given(st.lists(HEX))
def test_many_paths_are_those_of_each_key(keys: list[str]) -> None:
    assert LAYOUT.paths_of(keys) == [LAYOUT.path_of(key) for key in keys]


@pytest.mark.parametrize("wrong", ["", "a" * 63, "A" * 64, " " * 64, "g" * 64, "\u0661" * 64])
@pytest.mark.parametrize("others", [[], ["b" * 64], ["b" * 65, "b" * 63]])
def test_of_many_keys_none_has_a_path_where_one_is_wrong(wrong: str, others: list[str]) -> None:
    with pytest.raises(ValueError, match=r"not a key|non-hexadecimal"):
        LAYOUT.paths_of([*others, wrong])


@pytest.mark.parametrize(
    "path",
    [
        "",
        "00/" + "1" * 64 + ".safetensors",
        "11/" + "1" * 64,
        "11/" + "1" * 63 + ".safetensors",
        "11/" + "1" * 64 + ".safetensors\n",
        "AA/" + "A" * 64 + ".safetensors",
        "/11/" + "1" * 64 + ".safetensors",
        ".vcache/store.json",
    ],
)
def test_a_foreign_file_has_no_key(path: str) -> None:
    assert LAYOUT.key_of(path) is None


def packed() -> tuple[dict[str, str], str]:
    """Metadata of some entry, and its path."""
    recipe, source = {"stage": "features"}, digest_bytes(b"source")
    key = native_key(Stage.FEATURES, source, digest_json(recipe))
    entry = Entry(key, Stage.FEATURES, {}, Provenance(source, recipe, num_tokens=4))
    return LAYOUT.pack(entry)[0], LAYOUT.path_of(key)


@pytest.mark.parametrize(
    ("name", "value", "finding"),
    [
        ("format", "2", "header"),
        ("format", None, "header"),
        ("key", "0" * 64, "key_mismatch"),
        ("key", None, "header"),
        ("stage", "pixels", "key_mismatch"),
        ("stage", "logits", "header"),
        ("source_sha256", "0" * 64, "key_mismatch"),
        ("recipe", '{"stage":"pixels"}', "key_mismatch"),
        ("recipe", '{"stage": "features"}', "header"),
        ("recipe", '{"stage":', "header"),
        ("recipe", "[" * 5000, "header"),
        ("recipe", "[]", "header"),
        ("recipe", None, "header"),
        ("recipe_sha256", "0" * 64, "key_mismatch"),
        ("num_tokens", "-1", "header"),
        ("num_tokens", "\u0664", "header"),
        ("num_tokens", "9" * 5000, "header"),
        ("kind", "audio", "header"),
        ("versions", '{"numpy":2}', "header"),
        ("versions", "numpy", "header"),
        ("created", None, "header"),
    ],
)
def test_metadata_that_does_not_hold_together_is_refused(
    name: str, value: str | None, finding: str
) -> None:
    metadata, path = packed()
    metadata.pop(f"vcache.{name}", None)
    if value is not None:
        metadata[f"vcache.{name}"] = value
    with pytest.raises(InvalidEntryError) as caught:
        LAYOUT.unpack(path, metadata, {})
    assert caught.value.finding == finding


def test_an_entry_in_the_place_of_another_is_refused() -> None:
    metadata, _ = packed()
    with pytest.raises(InvalidEntryError) as caught:
        LAYOUT.unpack(LAYOUT.path_of("0" * 64), metadata, {})
    assert caught.value.finding == "key_mismatch"


def test_fields_that_we_do_not_know_are_kept() -> None:
    metadata, path = packed()
    metadata["other.note"] = "hello"
    assert LAYOUT.unpack(path, metadata, {}).metadata["other.note"] == "hello"


def test_an_entry_without_a_source_cannot_be_packed() -> None:
    with pytest.raises(InvalidEntryError, match="source"):
        LAYOUT.pack(Entry("0" * 64, Stage.PIXELS, {}))


def test_the_creation_time_honours_source_date_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    assert packed()[0]["vcache.created"] == "2001-09-09T01:46:40Z"


def test_a_folder_whose_name_is_no_text_can_be_a_label() -> None:
    metadata, _ = packed()
    recipe, source = {"stage": "features"}, digest_bytes(b"source")
    entry = Entry(metadata["vcache.key"], Stage.FEATURES, {}, Provenance(source, recipe, "t\udce9"))
    assert LAYOUT.pack(entry)[0]["vcache.model"] == "t\\xe9"


def test_metadata_is_text_and_names_neither_a_path_nor_a_run() -> None:
    metadata, _ = packed()
    assert sorted(metadata) == [
        "vcache.created",
        "vcache.format",
        "vcache.key",
        "vcache.num_tokens",
        "vcache.recipe",
        "vcache.recipe_sha256",
        "vcache.source_sha256",
        "vcache.stage",
    ]


@pytest.mark.parametrize("recipe", [FEATURES, PIXELS], ids=lambda recipe: recipe.stage.value)
def test_the_key_binds_source_and_recipe(recipe: Recipe) -> None:
    target, source = NativeTarget(), digest_bytes(b"source")
    key = target.key(recipe, Evidence(source))
    assert key == native_key(recipe.stage, source, recipe.digest)
    others = [
        target.key(recipe, Evidence(digest_bytes(b"other"))),
        target.key(replace(recipe, family_revision=2), Evidence(source)),
        target.key(replace(recipe, settings={"size": 448}), Evidence(source)),
    ]
    assert len({key, *others}) == 4


def test_features_are_stored_in_the_recipe_s_dtype_and_pixels_as_they_are() -> None:
    target = NativeTarget()
    floats, ids = np.ones((2, 4), np.float32), np.ones((1, 3), np.int64)
    features = target.tensors(FEATURES, Features({"features": floats, "ids": ids}))
    pixels = target.tensors(PIXELS, Pixels({"pixel_values": floats, "image_grid_thw": ids}, 4))
    assert {name: tensor.dtype for name, tensor in features.items()} == {
        "features": "BF16",
        "ids": "I64",
    }
    assert {name: tensor.dtype for name, tensor in pixels.items()} == {
        "pixel_values": "F32",
        "image_grid_thw": "I64",
    }


@pytest.mark.parametrize(
    ("dtype", "largest", "beyond"), [("F16", 65519.0, 65520.0), ("BF16", 3.39e38, 3.4e38)]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_what_the_stored_dtype_cannot_hold_is_refused(
    dtype: str, largest: float, beyond: float, sign: int
) -> None:
    encoder = EncoderRecipe("siglip", 1, "f" * 64, "hidden", "F32", dtype)
    recipe = replace(FEATURES, encoder=encoder)
    fits = np.full((2, 2), sign * largest, np.float32)
    stored = NativeTarget().tensors(recipe, Features({"features": fits}))["features"]
    assert np.isfinite(np.asarray(stored.numpy(), np.float32)).all()
    with pytest.raises(EncodeError, match=f"too large for {dtype}"):
        NativeTarget().tensors(
            recipe, Features({"features": np.full(1, sign * beyond, np.float32)})
        )


def test_the_target_crosses_to_a_worker() -> None:
    again: Any = pickle.loads(pickle.dumps(NativeTarget()))  # noqa: S301  our own bytes
    assert again == NativeTarget()
    assert (again.name, again.key_from, again.unit) == ("native", "digest", "item")


def test_the_recipe_is_readable_by_anyone() -> None:
    metadata, _ = packed()
    assert json.loads(metadata["vcache.recipe"]) == {"stage": "features"}
