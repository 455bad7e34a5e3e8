"""Levels in native files: read as the pixels they stand for, and refused where they do not fit."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.care import make_store
from vcache_cli.digest import digest_json
from vcache_cli.entry import Entry, Provenance
from vcache_cli.errors import InvalidEntryError
from vcache_cli.items import Pixels, Stage
from vcache_cli.levels import LevelTable, LevelTensor
from vcache_cli.recipe import Recipe
from vcache_cli.store import DiskStore, MemoryTier
from vcache_cli.store.verify import VerifyOptions, verify_store
from vcache_cli.targets import NativeLayout, NativeTarget, native_key
from vcache_cli.tensor import Tensor
from vcache_cli.testing.files import file_of

LAYOUT = NativeLayout()
RECIPE = Recipe(
    stage=Stage.PIXELS,
    target="native",
    profile="transformers-pil-5",
    profile_revision=1,
    family="qwen2_vl",
    family_revision=1,
    settings={},
    encoder=None,
)


def pixels() -> Pixels:
    levels = np.random.default_rng(2).integers(0, 256, (64, 24), np.uint8)
    values = np.random.default_rng(3).random((3, 256), np.float32)
    tensors = {"pixel_values": levels, "image_grid_thw": np.array([1, 8, 8])}
    return Pixels(tensors, 16, {"pixel_values": LevelTable(values, 1, 4)})


def entry_of(value: Pixels, source: str = "a" * 64) -> Entry:
    described = RECIPE.as_json()
    key = native_key(Stage.PIXELS, source, digest_json(described))
    provenance = Provenance(source, described, num_tokens=16, created="2026-01-02T03:04:05Z")
    return Entry(key, Stage.PIXELS, NativeTarget().tensors(RECIPE, value), provenance)


def test_levels_and_floats_are_the_same_entry(tmp_path: Path) -> None:
    """Same key, same tensors on read; only the file is smaller."""
    packed, plain = entry_of(pixels()), entry_of(pixels().expanded())
    assert packed.key == plain.key
    store = DiskStore(make_store(tmp_path / "store"), mode="w")
    sizes = []
    for entry in (plain, packed):
        sizes.append(store.put(entry))
        found = store.get(entry.key)
        assert found is not None
        assert sorted(found.tensors) == ["image_grid_thw", "pixel_values"]
        for name, array in pixels().expanded().tensors.items():
            assert found.numpy(name).dtype == array.dtype
            assert found.numpy(name).tobytes() == array.tobytes()
    header_bytes = sizes[1] - sizes[0] - 64 * 24 * (1 - 4) - 3 * 256 * 4
    assert 0 <= header_bytes < 256


def test_an_entry_that_was_read_is_written_as_levels_again() -> None:
    file = file_of(entry_of(pixels()), LAYOUT)
    again = LAYOUT.unpack(file.path, file.metadata, file.tensors)
    _ = again.numpy("pixel_values")
    assert file_of(again, LAYOUT).data == file.data


def test_an_entry_takes_what_its_file_takes() -> None:
    entry = entry_of(pixels())
    assert entry.size_bytes == 64 * 24 * 4 + 24
    assert entry.file_bytes == 64 * 24 + 3 * 256 * 4 + 24
    tier = MemoryTier(capacity_bytes=1 << 20)
    assert tier.put(entry) == entry.size_bytes


def test_verify_takes_levels_for_sound(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store")
    DiskStore(root, mode="w").put(entry_of(pixels()))
    for level in ("stat", "header", "data"):
        report = verify_store(root, VerifyOptions(level=level))
        assert list(report.problems) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("channel_axis", text) for text in ("2", "-1", "x", "", "1" * 5000, "\u0661", "0")),
        *(("channel_stride", text) for text in ("0", "-4", "3", "16", "4.0", "9" * 11)),
        *(("channel_axis", None), ("channel_stride", None), ("format", "3")),
    ],
)
def test_odd_fields_are_a_miss(field: str, value: str | None) -> None:
    file = file_of(entry_of(pixels()), LAYOUT)
    metadata = {**file.metadata, f"vcache.{field}": value}
    kept = {name: text for name, text in metadata.items() if text is not None}
    with pytest.raises(InvalidEntryError):
        LAYOUT.unpack(file.path, kept, file.tensors)


@pytest.mark.parametrize(
    "tensors",
    [
        {"pixel_values": ("U8", (64, 24))},
        {"pixel_values.lut": ("F32", (3, 256))},
        {"pixel_values": ("U8", (64, 24)), "pixel_values.lut": ("F32", (3, 255))},
        {"pixel_values": ("U8", (64, 24)), "pixel_values.lut": ("F32", (0, 256))},
        {"pixel_values": ("U8", (64, 24)), "pixel_values.lut": ("U32", (3, 256))},
        {"pixel_values": ("F32", (64, 24)), "pixel_values.lut": ("F32", (3, 256))},
        {"pixel_values": ("U8", (64, 23)), "pixel_values.lut": ("F32", (3, 256))},
        {"pixel_values": ("U8", ()), "pixel_values.lut": ("F32", (3, 256))},
    ],
    ids=str,
)
def test_odd_tables_are_a_miss(tensors: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    file = file_of(entry_of(pixels()), LAYOUT)
    width = {"U8": 1, "F32": 4, "U32": 4}
    made = {
        name: Tensor(dtype, shape, bytes(int(np.prod(shape)) * width[dtype]))
        for name, (dtype, shape) in tensors.items()
    }
    with pytest.raises(InvalidEntryError):
        LAYOUT.unpack(file.path, file.metadata, made)


FILE = file_of(entry_of(pixels()), LAYOUT)
SIDES = st.lists(st.integers(0, 6), max_size=4).map(tuple)
TEXTS = st.integers(-1, 7).map(str) | st.text(max_size=3)


@given(SIDES, st.sampled_from([(1, 256), (2, 256), (0, 256), (256,)]), TEXTS, TEXTS)
def test_whatever_a_file_says_it_is_a_miss_or_an_array(
    shape: tuple[int, ...], table: tuple[int, ...], axis: str, stride: str
) -> None:
    """No other exception, neither at the get nor at the first look."""
    metadata = {**FILE.metadata, "vcache.channel_axis": axis, "vcache.channel_stride": stride}
    tensors = {
        "pixel_values": Tensor("U8", shape, bytes(math.prod(shape))),
        "pixel_values.lut": Tensor("F32", table, bytes(4 * math.prod(table))),
    }
    try:
        entry = LAYOUT.unpack(FILE.path, metadata, tensors)
    except InvalidEntryError:
        return
    assert entry.numpy("pixel_values").shape == shape


def test_levels_that_would_not_fit_once_expanded_are_a_miss() -> None:
    file = file_of(entry_of(pixels()), LAYOUT)
    side = 2**30
    shape = (side // 12, 12)

    class Large(Tensor):
        """Says that it is large."""

        def __post_init__(self) -> None:
            """Holds nothing."""

    tensors = {
        "pixel_values": Large("U8", shape, b""),
        "pixel_values.lut": Tensor("F32", (3, 256), bytes(3072)),
    }
    with pytest.raises(InvalidEntryError) as error:
        LAYOUT.unpack(file.path, file.metadata, tensors)
    assert error.value.finding == "size"


def test_levels_belong_to_pixels() -> None:
    entry = entry_of(pixels())
    key = native_key(Stage.FEATURES, "a" * 64, digest_json(entry.recipe))
    file = file_of(replace(entry, key=key, stage=Stage.FEATURES, tensors={}), LAYOUT)
    with pytest.raises(InvalidEntryError, match="have no levels"):
        LAYOUT.unpack(file.path, {**file.metadata, "vcache.format": "2"}, {})


def test_two_ways_to_lie_do_not_fit_one_file() -> None:
    entry = entry_of(pixels())
    first = entry.tensors["pixel_values"]
    assert isinstance(first, LevelTensor)
    other = LevelTensor(first.levels, first.table, axis=1, stride=8)
    with pytest.raises(InvalidEntryError, match="differ in axis or stride"):
        LAYOUT.pack(replace(entry, tensors={**entry.tensors, "more": other}))
