"""Entries of `VisionEmbeddingCache` that outlive the process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.store.care import make_store
from vcache_cli.digest import digest_bytes, digest_json
from vcache_cli.entry import Entry, Provenance
from vcache_cli.errors import StoreFullError
from vcache_cli.items import Stage
from vcache_cli.serving.embedding import VisionEmbeddingCache
from vcache_cli.serving.embedding_store import EmbeddingStore, native_rule
from vcache_cli.store import DiskStore
from vcache_cli.targets.native import native_key
from vcache_cli.tensor import Tensor

RECIPE = {"model": "tiny", "profile": "server-1"}
PIXELS = np.arange(48, dtype=np.float32).reshape(1, 3, 4, 4)
GRID = np.array([[1, 2, 2]], np.int64)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[DiskStore]:
    """An empty native store, open for writing."""
    with DiskStore(make_store(tmp_path / "store"), mode="w") as store:
        yield store


def cache_over(disk: DiskStore, **options: Any) -> VisionEmbeddingCache:  # noqa: ANN401
    """A cache as a server makes it at its start."""
    return VisionEmbeddingCache(
        persistence=EmbeddingStore(disk, native_rule(RECIPE, model="tiny"), **options)
    )


def test_beyond_pixels_and_encodings_persist_over_a_restart(disk: DiskStore) -> None:
    cache, mask = cache_over(disk), np.ones((1, 6), np.int32)
    cache.set_pixel_cache(["a"], "p", PIXELS, GRID, mask, GRID, {"sizes": GRID}, 0.125)
    cache.set_pixel_values(["a", "b"], PIXELS, GRID, 0.1)
    cache.set_encoding_cache(["a"], "p", PIXELS, 151_643, PIXELS, 2.5)
    again = cache_over(disk)
    pixel, only = again.get_pixel_cache(["a"], "p"), again.get_pixel_values(["a", "b"])
    encoding = again.get_encoding_cache(["a"], "p")
    assert pixel is not None
    assert only is not None
    assert encoding is not None
    np.testing.assert_array_equal(pixel.pixel_values, PIXELS)
    np.testing.assert_array_equal(pixel.attention_mask, mask)
    np.testing.assert_array_equal(pixel.extra_kwargs["sizes"], GRID)
    assert pixel.attention_mask.dtype == np.int32
    assert (pixel.processing_time, only.processing_time) == (0.125, 0.1)
    assert (type(encoding.first_token), encoding.first_token) == (int, 151_643)
    assert encoding.encoding_time == 2.5
    assert (again.stats.pixel_cache_hits, again.stats.encoding_cache_hits) == (2, 1)
    assert again.get_pixel_values(["b", "a"]) is None
    assert again.get_pixel_cache(["a"], "q") is None


def test_a_second_get_is_served_from_memory(disk: DiskStore) -> None:
    cache_over(disk).set_pixel_values(["a"], PIXELS)
    again = cache_over(disk)
    assert again.get_pixel_values(["a"]) is again.get_pixel_values(["a"])


def test_clear_keeps_what_persists(disk: DiskStore) -> None:
    cache = cache_over(disk)
    cache.set_pixel_values(["a"], PIXELS)
    cache.clear()
    assert cache.get_pixel_values(["a"]) is not None


def test_what_a_warm_run_wrote_hits_at_the_first_request(disk: DiskStore, tmp_path: Path) -> None:
    """A single picture is its content: the identity that warm files it under."""
    picture = tmp_path / "a.png"
    picture.write_bytes(b"a picture")
    source = digest_bytes(b"a picture")
    key = native_key(Stage.PIXELS, source, digest_json(RECIPE))
    tensors = {"pixel_values": Tensor.from_numpy(PIXELS), "image_grid_thw": Tensor.from_numpy(GRID)}
    disk.put(Entry(key, Stage.PIXELS, tensors, Provenance(source, RECIPE)))
    entry = cache_over(disk).get_pixel_values([str(picture)])
    assert entry is not None
    np.testing.assert_array_equal(entry.pixel_values, PIXELS)
    np.testing.assert_array_equal(entry.image_grid_thw, GRID)


@pytest.mark.parametrize(
    "names",
    [["pixel_values", "pixel_mask"], ["image_grid_thw"], ["pixel_values.lut", "pixel_values"]],
    ids=["more", "less", "compact"],
)
def test_an_entry_with_other_tensors_is_a_miss(disk: DiskStore, names: list[str]) -> None:
    """Half of what the model needs would be a wrong answer."""
    source = digest_bytes(b"a")
    key = native_key(Stage.PIXELS, source, digest_json(RECIPE))
    tensors = {name: Tensor.from_numpy(PIXELS) for name in names}
    disk.put(Entry(key, Stage.PIXELS, tensors, Provenance(source, RECIPE)))
    cache = cache_over(disk)
    assert cache.get_pixel_values(["a"]) is None
    assert cache.stats.pixel_cache_misses == 1


def test_another_recipe_is_another_entry(disk: DiskStore) -> None:
    cache_over(disk).set_pixel_values(["a"], PIXELS)
    other = EmbeddingStore(disk, native_rule({**RECIPE, "profile": "server-2"}))
    assert VisionEmbeddingCache(persistence=other).get_pixel_values(["a"]) is None


@pytest.mark.parametrize(
    "pixels",
    [{"nested": PIXELS}, "text", PIXELS.astype(np.float64), PIXELS.astype(np.complex64)],
    ids=["dict", "text", "float64", "complex"],
)
def test_what_has_no_form_on_disk_stays_in_memory(disk: DiskStore, pixels: object) -> None:
    cache = cache_over(disk)
    cache.set_pixel_values(["a"], pixels)
    assert cache.get_pixel_values(["a"]) is not None
    assert cache_over(disk).get_pixel_values(["a"]) is None


def test_a_first_token_that_is_no_number_stays_in_memory(disk: DiskStore) -> None:
    token: Any = PIXELS
    for value in (token, 2**64):
        cache_over(disk).set_encoding_cache(["a"], "p", PIXELS, value, PIXELS)
        assert cache_over(disk).get_encoding_cache(["a"], "p") is None


class FullTier:
    """A disk without room."""

    def get(self, key: str) -> Entry | None:
        """Nothing is there."""
        return None

    def contains(self, key: str) -> bool:
        """Nothing is there."""
        return False

    def put(self, entry: Entry) -> int:
        """No room."""
        raise StoreFullError("no space left")


def test_a_full_disk_is_counted_and_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """A server goes on without its disk."""
    persistence = EmbeddingStore(FullTier(), native_rule(RECIPE))
    cache = VisionEmbeddingCache(persistence=persistence)
    for name in "abc":
        cache.set_pixel_values([name], PIXELS)
        assert cache.get_pixel_values([name]) is not None
    assert persistence.failures == 3
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_read_only_store_is_read_and_never_written(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store")
    with DiskStore(root, mode="w") as disk:
        cache_over(disk).set_pixel_values(["a"], PIXELS)
    persistence = EmbeddingStore(DiskStore(root), native_rule(RECIPE), read_only=True)
    cache = VisionEmbeddingCache(persistence=persistence)
    assert cache.get_pixel_values(["a"]) is not None
    cache.set_pixel_values(["b"], PIXELS)
    assert persistence.failures == 0


def test_a_server_s_own_arrays_go_through_pack_and_unpack(disk: DiskStore) -> None:
    """bfloat16 survives: a tensor is no numpy array."""

    def pack(array: Any) -> Tensor:  # noqa: ANN401
        return Tensor.from_numpy(array, "BF16")

    cache_over(disk, pack=pack).set_pixel_values(["a"], PIXELS)
    entry = cache_over(disk, unpack=lambda tensor: tensor).get_pixel_values(["a"])
    assert entry is not None
    assert entry.pixel_values.dtype == "BF16"


def test_damage_is_a_miss(disk: DiskStore) -> None:
    cache_over(disk).set_pixel_values(["a"], PIXELS)
    (path,) = disk.root.path.glob("??/*.safetensors")
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert cache_over(disk).get_pixel_values(["a"]) is None
