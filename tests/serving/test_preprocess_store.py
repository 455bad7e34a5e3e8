"""Pixels beyond the process: what a warm wrote hits at the first request of a new server."""

from __future__ import annotations

import json
import logging
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import vcache_cli as vcache
from tests.patience import PATIENCE_SECONDS
from vcache_cli.entry import Entry
from vcache_cli.items import Stage
from vcache_cli.recipe import Recipe
from vcache_cli.serving import PixelKey, PixelStore, VisionPreprocessCache, pixel_key
from vcache_cli.store import DiskStore, MemoryTier, StoreRoot, TieredCache, create_meta
from vcache_cli.targets import NativeLayout

Payload = dict[str, NDArray[Any]]

RECIPE = Recipe(
    stage=Stage.PIXELS,
    target="native",
    profile="transformers-pil-5",
    profile_revision=1,
    family="siglip",
    family_revision=1,
    settings={"size": {"height": 2, "width": 2}},
)

SERVER = """
import json, sys
import numpy as np
import vcache_cli as vcache
from vcache_cli.media import PillowDecoder
from vcache_cli.serving import PixelStore, VisionPreprocessCache

store, model, *paths = sys.argv[1:]
loaded = vcache.load_recipe(model, vcache.WarmOptions(stage=vcache.Stage.PIXELS))
pixels = PixelStore(vcache.open_store(store), loaded.recipe, read_only=True)
cache = VisionPreprocessCache(1 << 30, store=pixels)
equal = 0

def preprocess():
    raise SystemExit("preprocess was called")

for path in paths:
    data = open(path, "rb").read()
    key = pixels.key_of(data)
    assert key.entry_key == loaded.key_of(data)
    payload = cache.get_or_preprocess(key, preprocess)
    fresh = loaded.preprocessor(PillowDecoder(loaded.profile).decode(data)).tensors
    assert payload.keys() == fresh.keys()
    equal += all(payload[n].tobytes() == fresh[n].tobytes() for n in fresh)
    assert not any(array.flags.writeable for array in payload.values())
print(json.dumps([cache.hits, cache.misses, equal]))
"""


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    path = tmp_path / "store"
    return StoreRoot(path, NativeLayout(), create_meta(path, target="native"))


@pytest.fixture
def disk(root: StoreRoot) -> Iterator[DiskStore]:
    with DiskStore(root, mode="w") as store:
        yield store


def pixels(fill: float = 1.0) -> Payload:
    return {"pixel_values": np.full((3, 2, 2), fill, np.float32), "grid": np.array([[1, 2, 2]])}


def never() -> Payload:
    raise AssertionError("preprocess was called")


def test_beyond_a_persistent_tier_what_a_warm_wrote_hits_in_a_new_process(
    tmp_path: Path, media: Path, tiny_siglip: Path
) -> None:
    options = vcache.WarmOptions(stage=Stage.PIXELS)
    outcomes = vcache.warm([str(media)], store=tmp_path / "s", model=tiny_siglip, options=options)
    paths = [outcome.item.path for outcome in outcomes if outcome.key]
    assert len(paths) > 10
    done = subprocess.run(
        [sys.executable, "-c", SERVER, str(tmp_path / "s"), str(tiny_siglip), *paths],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    hits, misses, equal = json.loads(done.stdout)
    assert (hits, misses, equal) == (len(paths), 0, len(paths))


def test_what_one_cache_preprocessed_another_finds(root: StoreRoot, disk: DiskStore) -> None:
    store = PixelStore(disk, RECIPE)
    key = store.key_of(b"picture")
    made = VisionPreprocessCache[Payload](1000, store=store).get_or_preprocess(key, pixels)
    later = VisionPreprocessCache[Payload](1000, store=PixelStore(DiskStore(root), RECIPE))
    found = later.get_or_preprocess(key, never)
    assert {name: (a.dtype, a.shape, a.tobytes()) for name, a in found.items()} == {
        name: (a.dtype, a.shape, a.tobytes()) for name, a in made.items()
    }
    assert not any(array.flags.writeable for array in found.values())
    assert (later.hits, later.misses, len(later)) == (1, 0, 1)
    assert later.get(key) is found


def test_a_restored_payload_is_charged_the_file_it_lies_in(
    root: StoreRoot, disk: DiskStore
) -> None:
    store = PixelStore(disk, RECIPE)
    key = store.key_of(b"picture")
    assert store.put(key, pixels())
    cache: VisionPreprocessCache[Payload] = VisionPreprocessCache(100_000, store=store)
    cache.get(key)
    facts = disk.stat(key.entry_key)
    assert facts is not None
    assert 48 + 24 <= cache.total_bytes <= facts.st_size


def test_an_entry_key_as_text_reads_but_does_not_write(disk: DiskStore) -> None:
    store = PixelStore(disk, RECIPE)
    cache: VisionPreprocessCache[Payload] = VisionPreprocessCache(1000, store=store)
    key = store.key_of(b"picture")
    cache.get_or_preprocess(key.entry_key, pixels)
    assert not disk.contains(key.entry_key)
    store.put(key, pixels(2.0))
    cache.clear()
    assert cache.get_or_preprocess(key.entry_key, never)["pixel_values"][0, 0, 0] == 2.0


@pytest.mark.parametrize(
    "payload",
    [
        "text",
        {},
        {"pixel_values": [1.0]},
        {1: np.zeros(3)},
        {"pixel_values": np.zeros(3, np.complex64)},
        (np.zeros(3),),
    ],
    ids=str,
)
def test_other_payloads_stay_in_memory(disk: DiskStore, payload: object) -> None:
    store = PixelStore(disk, RECIPE)
    cache: VisionPreprocessCache[object] = VisionPreprocessCache(1000, store=store)
    key = store.key_of(b"picture")
    assert cache.get_or_preprocess(key, lambda: payload) is payload
    assert cache.get(key) is payload
    assert not disk.contains(key.entry_key)
    assert store.failures == 0


@pytest.mark.parametrize("key", [7, ("a", 1), "short", None])
def test_other_keys_never_reach_the_disk(disk: DiskStore, key: object) -> None:
    store = PixelStore(disk, RECIPE)
    assert store.get(key) is None
    assert not store.contains(key)
    assert not store.put(key, pixels())


def test_a_disabled_cache_leaves_the_disk_alone(disk: DiskStore) -> None:
    store = PixelStore(disk, RECIPE)
    cache: VisionPreprocessCache[Payload] = VisionPreprocessCache(0, store=store)
    key = store.key_of(b"picture")
    cache.put(key, pixels(), 72)
    assert cache.get_or_preprocess(key, pixels)["grid"].flags.writeable
    assert not disk.contains(key.entry_key)
    assert cache.get(key) is None
    assert not cache.contains(key)


def test_a_payload_too_large_for_memory_is_kept_on_disk(disk: DiskStore) -> None:
    store = PixelStore(disk, RECIPE)
    cache: VisionPreprocessCache[Payload] = VisionPreprocessCache(10, store=store)
    key = store.key_of(b"picture")
    cache.get_or_preprocess(key, pixels)
    assert cache.contains(key)
    assert len(cache) == 0
    assert cache.get_or_preprocess(key, never)["pixel_values"][0, 0, 0] == 1.0


def test_a_damaged_entry_is_a_miss_and_is_replaced(root: StoreRoot, disk: DiskStore) -> None:
    store = PixelStore(disk, RECIPE)
    key = store.key_of(b"picture")
    store.put(key, pixels())
    path = root.path / root.layout.path_of(key.entry_key)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    cache: VisionPreprocessCache[Payload] = VisionPreprocessCache(1000, store=store)
    assert cache.get_or_preprocess(key, lambda: pixels(3.0))["pixel_values"][0, 0, 0] == 3.0
    assert cache.misses == 1
    cache.clear()
    assert cache.get_or_preprocess(key, never)["pixel_values"][0, 0, 0] == 3.0


class Broken(MemoryTier):
    """A disk with no room left."""

    def put(self, entry: Entry) -> int:
        raise OSError(28, "No space left on device")


def test_a_server_goes_on_without_its_disk(caplog: pytest.LogCaptureFixture) -> None:
    store = PixelStore(Broken(1000), RECIPE)
    cache: VisionPreprocessCache[Payload] = VisionPreprocessCache(1000, store=store)
    with caplog.at_level(logging.WARNING):
        for name in (b"one", b"two"):
            cache.get_or_preprocess(store.key_of(name), pixels)
    assert (store.failures, len(cache)) == (2, 2)
    assert [record.getMessage() for record in caplog.records] == [
        "pixels are not kept on disk: [Errno 28] No space left on device"
    ]


def test_read_only_writes_nothing(disk: DiskStore) -> None:
    store = PixelStore(disk, RECIPE, read_only=True)
    assert not store.put(store.key_of(b"picture"), pixels())
    assert store.failures == 0


def test_any_tier_will_do(root: StoreRoot, disk: DiskStore) -> None:
    store = PixelStore(TieredCache(MemoryTier(1000), disk), RECIPE)
    key = store.key_of(b"picture")
    assert store.put(key, pixels())
    assert disk.contains(key.entry_key)
    assert store.contains(key)


def test_a_pickled_cache_opens_the_store_anew(disk: DiskStore) -> None:
    store = PixelStore(disk, RECIPE)
    cache: VisionPreprocessCache[Payload] = VisionPreprocessCache(1000, store=store)
    key = store.key_of(b"picture")
    cache.get_or_preprocess(key, pixels)
    other = pickle.loads(pickle.dumps(cache))  # noqa: S301  our own bytes
    assert len(other) == 0
    assert other.get_or_preprocess(key, never)["pixel_values"][0, 0, 0] == 1.0
    assert (other.hits, other.misses) == (1, 0)
    other._store.tier.close()


def test_a_recipe_that_gives_no_keys_is_a_value_error() -> None:
    recipe = replace(RECIPE, target="omlx")
    with pytest.raises(ValueError, match="expected stage `pixels` of target `native`"):
        PixelStore(MemoryTier(10), recipe)


def test_a_key_is_a_function_of_bytes_and_recipe() -> None:
    key = pixel_key(b"picture", RECIPE)
    assert key == pixel_key(memoryview(b"picture"), RECIPE)
    assert key != pixel_key(b"pictures", RECIPE)
    other = replace(RECIPE, profile_revision=2)
    assert pixel_key(b"picture", other).entry_key != key.entry_key
    assert isinstance(pickle.loads(pickle.dumps(key)), PixelKey)  # noqa: S301  our own bytes
