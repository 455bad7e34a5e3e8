"""`VisionEmbeddingCache`, row by row of what vllm-mlx promises, and what it got wrong."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from vcache_cli.serving.embedding import VisionEmbeddingCache
from vcache_cli.serving.embedding_entries import VisionCacheStats
from vcache_cli.serving.image_hash import compute_image_hash, compute_images_hash

PIXELS = np.zeros((1, 3, 4, 4), np.float32)
IDS = np.arange(6)


def picture(folder: Path, name: str, content: bytes) -> str:
    """A file with that content."""
    path = folder / name
    path.write_bytes(content)
    return str(path)


def unreadable(folder: Path) -> list[str]:
    """Files that are there and cannot be read, as far as this user and system have any."""
    loop = folder / "loop.png"
    loop.symlink_to(loop)
    found = [str(loop)]
    if sys.platform == "linux":
        found.append("/proc/self/mem")  # regular, opens, and fails to read from its start
    if os.geteuid():
        found.append(picture(folder, "closed.png", b"closed"))
        os.chmod(found[-1], 0)
    return found


# --- the rows -----------------------------------------------------------------------------------


def test_row_constructor_takes_two_limits_and_a_switch() -> None:
    cache = VisionEmbeddingCache()
    assert (cache.max_pixel_entries, cache.max_encoding_entries, cache.enabled) == (100, 50, True)
    small = VisionEmbeddingCache(2, 1, True)  # noqa: FBT003  positional, as servers write it
    assert (small.max_pixel_entries, small.max_encoding_entries) == (2, 1)


def test_row_constructor_bounds_each_pixel_lru_for_itself() -> None:
    cache = VisionEmbeddingCache(max_pixel_entries=2, max_encoding_entries=1)
    for name in "abc":
        cache.set_pixel_cache([name], "p", PIXELS, IDS)
        cache.set_pixel_values([name], PIXELS)
        cache.set_encoding_cache([name], "p", PIXELS, 1, PIXELS)
    sizes = cache.get_stats()
    assert sizes["pixel_cache_size"] == sizes["pixel_only_cache_size"] == 2
    assert sizes["encoding_cache_size"] == 1
    assert cache.get_pixel_cache(["a"], "p") is None
    assert cache.get_pixel_cache(["c"], "p") is not None


@pytest.mark.parametrize("images", [["a"], []], ids=["disabled", "no-images"])
def test_row_constructor_disabled_or_no_images_counts_nothing(images: list[str]) -> None:
    cache = VisionEmbeddingCache(enabled=not images)
    cache.set_pixel_cache(images, "p", PIXELS, IDS)
    cache.set_pixel_values(images, PIXELS)
    cache.set_encoding_cache(images, "p", PIXELS, 1, PIXELS)
    assert cache.get_pixel_cache(images, "p") is None
    assert cache.get_pixel_values(images) is None
    assert cache.get_encoding_cache(images, "p") is None
    assert not any(cache.get_stats().values())


def test_row_pixel_cache_gives_back_all_that_was_set() -> None:
    cache = VisionEmbeddingCache()
    mask, grid, extra = np.ones(6), np.array([[1, 2, 2]]), {"sizes": IDS}
    cache.set_pixel_cache(["a", "b"], "p", PIXELS, IDS, mask, grid, extra, 0.5)
    entry = cache.get_pixel_cache(["a", "b"], "p")
    assert entry is not None
    assert entry.pixel_values is PIXELS
    assert entry.input_ids is IDS
    assert entry.attention_mask is mask
    assert entry.image_grid_thw is grid
    assert entry.extra_kwargs is extra
    assert entry.processing_time == 0.5
    assert cache.get_pixel_cache(["a", "b"], "q") is None
    assert cache.stats.total_images_processed == 2


def test_row_pixel_cache_has_defaults() -> None:
    cache = VisionEmbeddingCache()
    cache.set_pixel_cache(["a"], "p", PIXELS, IDS)
    entry = cache.get_pixel_cache(["a"], "p")
    assert entry is not None
    assert (entry.attention_mask, entry.image_grid_thw) == (None, None)
    assert (entry.extra_kwargs, entry.processing_time) == ({}, 0.0)


def test_row_pixel_values_do_not_depend_on_the_prompt() -> None:
    cache = VisionEmbeddingCache()
    grid = np.array([[1, 2, 2]])
    assert cache.get_pixel_values(["a"]) is None
    cache.set_pixel_values(["a"], PIXELS, grid, 0.25)
    entry = cache.get_pixel_values(["a"])
    assert entry is not None
    assert entry.pixel_values is PIXELS
    assert entry.image_grid_thw is grid
    assert entry.processing_time == 0.25
    assert (cache.stats.pixel_cache_hits, cache.stats.pixel_cache_misses) == (1, 1)
    assert cache.stats.total_images_processed == 0
    assert cache.get_pixel_cache(["a"], "") is None


def test_row_encoding_cache_gives_back_all_that_was_set() -> None:
    cache = VisionEmbeddingCache()
    logits, logprobs = np.ones(3), np.zeros(3)
    assert cache.get_encoding_cache(["a"], "p") is None
    cache.set_encoding_cache(["a"], "p", logits, 7, logprobs, 1.5)
    entry = cache.get_encoding_cache(["a"], "p")
    assert entry is not None
    assert entry.logits is logits
    assert entry.first_token == 7
    assert entry.logprobs is logprobs
    assert entry.encoding_time == 1.5
    assert (cache.stats.encoding_cache_hits, cache.stats.encoding_cache_misses) == (1, 1)


def test_row_stats_sum_the_times_of_hit_entries() -> None:
    cache = VisionEmbeddingCache()
    cache.set_pixel_cache(["a"], "p", PIXELS, IDS, processing_time=0.5)
    cache.set_pixel_values(["a"], PIXELS, processing_time=0.25)
    cache.set_encoding_cache(["a"], "p", PIXELS, 1, PIXELS, encoding_time=2.0)
    for _ in range(2):
        cache.get_pixel_cache(["a"], "p")
    cache.get_pixel_values(["a"])
    cache.get_encoding_cache(["a"], "p")
    assert cache.stats.total_time_saved == 3.25


def test_row_stats_have_rates_and_a_dict_of_eight() -> None:
    assert VisionCacheStats().pixel_hit_rate == VisionCacheStats().encoding_hit_rate == 0.0
    stats = VisionCacheStats(3, 1, 1, 3, 1.5, 4)
    assert stats.to_dict() == {
        "pixel_cache_hits": 3,
        "pixel_cache_misses": 1,
        "pixel_hit_rate": 0.75,
        "encoding_cache_hits": 1,
        "encoding_cache_misses": 3,
        "encoding_hit_rate": 0.25,
        "total_time_saved": 1.5,
        "total_images_processed": 4,
    }


def test_row_get_stats_adds_the_three_sizes() -> None:
    cache = VisionEmbeddingCache()
    cache.set_pixel_cache(["a"], "p", PIXELS, IDS)
    extra = {"pixel_cache_size": 1, "pixel_only_cache_size": 0, "encoding_cache_size": 0}
    assert cache.get_stats() == {**cache.stats.to_dict(), **extra}


def test_row_clear_resets_entries_and_stats() -> None:
    cache = VisionEmbeddingCache()
    cache.set_pixel_cache(["a"], "p", PIXELS, IDS)
    cache.get_pixel_cache(["a"], "p")
    cache.clear()
    assert not any(cache.get_stats().values())
    assert cache.get_pixel_cache(["a"], "p") is None


def test_row_repr_says_how_full_each_lru_is() -> None:
    cache = VisionEmbeddingCache(max_pixel_entries=3, max_encoding_entries=2)
    cache.set_pixel_values(["a"], PIXELS)
    assert repr(cache) == "<VisionEmbeddingCache pixel=0/3 pixel_only=1/3 encoding=0/2>"


def test_row_compute_image_hash_is_of_the_content_else_of_the_string(tmp_path: Path) -> None:
    path = picture(tmp_path, "a.png", b"x" * 100_000)
    assert compute_image_hash(path) == hashlib.sha256(b"x" * 100_000).hexdigest()
    assert compute_image_hash(Path(path)) == compute_image_hash(path)
    for text in ("https://host/a.png", str(tmp_path), "", "data:image/png;base64,AAAA"):
        assert compute_image_hash(text) == hashlib.sha256(text.encode()).hexdigest()


def test_row_compute_images_hash_of_none_is_a_word() -> None:
    assert compute_images_hash([]) == "no_images"
    assert len(compute_images_hash(["a"])) == len(compute_images_hash(["a", "b"])) == 64


# --- the faults, right here ---------------------------------------------------------------------


def test_fault_hashes_are_never_cut(tmp_path: Path) -> None:
    """Theirs keep 16 digits, of the first 64 KiB: pictures that differ later share an entry."""
    one = picture(tmp_path, "one.bmp", b"\0" * 70_000 + b"1")
    two = picture(tmp_path, "two.bmp", b"\0" * 70_000 + b"2")
    assert len(compute_image_hash(one)) == 64
    assert compute_image_hash(one) != compute_image_hash(two)


def test_fault_images_in_another_order_are_another_entry() -> None:
    cache = VisionEmbeddingCache()
    cache.set_pixel_values(["a", "b"], PIXELS)
    assert cache.get_pixel_values(["b", "a"]) is None
    assert cache.get_pixel_values(["a", "b"]) is not None


def test_fault_a_prompt_is_never_cut_nor_mixed_with_the_images() -> None:
    cache = VisionEmbeddingCache()
    keys = [("a", "b\nc"), ("a\nb", "c"), ("a", "b"), ("a", ""), ("a", "\ud800")]
    for number, (image, prompt) in enumerate(keys):
        cache.set_encoding_cache([image], prompt, PIXELS, number, PIXELS)
    for number, (image, prompt) in enumerate(keys):
        entry = cache.get_encoding_cache([image], prompt)
        assert entry is not None
        assert entry.first_token == number


def test_fault_bytes_are_bounded_too() -> None:
    cache = VisionEmbeddingCache(max_pixel_bytes=5_000, max_encoding_bytes=5_000)
    for number in range(10):
        cache.set_pixel_values([str(number)], np.zeros(2_000, np.uint8))
        cache.set_encoding_cache([str(number)], "p", np.zeros(2_000, np.uint8), 1, PIXELS)
    assert cache.get_stats()["pixel_only_cache_size"] == 2
    assert cache.get_stats()["encoding_cache_size"] == 2
    cache.set_pixel_values(["9"], np.zeros(6_000, np.uint8))  # larger than all: not kept
    assert cache.get_pixel_values(["9"]) is None  # and what it replaces is not served for it
    assert cache.get_pixel_values(["8"]) is not None


def test_fault_a_limit_of_zero_keeps_nothing() -> None:
    cache = VisionEmbeddingCache(max_pixel_entries=0, max_encoding_entries=0)
    cache.set_pixel_cache(["a"], "p", PIXELS, IDS)
    cache.set_pixel_values(["a"], PIXELS)
    cache.set_encoding_cache(["a"], "p", PIXELS, 1, PIXELS)
    assert cache.get_pixel_cache(["a"], "p") is None
    assert cache.get_pixel_values(["a"]) is None
    assert cache.get_encoding_cache(["a"], "p") is None
    assert (cache.stats.pixel_cache_misses, cache.stats.encoding_cache_misses) == (2, 1)


def test_fault_replacing_at_capacity_evicts_nothing() -> None:
    cache = VisionEmbeddingCache(max_pixel_entries=2)
    for name in ("a", "b", "b"):
        cache.set_pixel_values([name], PIXELS)
    assert cache.get_pixel_values(["a"]) is not None


def test_fault_an_unreadable_file_raises(tmp_path: Path) -> None:
    for path in unreadable(tmp_path):
        with pytest.raises(OSError, match=path):
            compute_image_hash(path)


def test_fault_an_unreadable_file_is_a_miss_and_is_not_kept(tmp_path: Path) -> None:
    for path in unreadable(tmp_path):
        cache = VisionEmbeddingCache()
        cache.set_pixel_cache([path], "p", PIXELS, IDS)
        cache.set_pixel_values(["a", path], PIXELS)
        cache.set_encoding_cache([path], "p", PIXELS, 1, PIXELS)
        assert not any(cache.get_stats().values())
        assert cache.get_pixel_cache([path], "p") is None
        assert cache.get_pixel_values(["a", path]) is None
        assert cache.get_encoding_cache([path], "p") is None
        assert (cache.stats.pixel_cache_misses, cache.stats.encoding_cache_misses) == (2, 1)


@pytest.mark.parametrize(
    "text", ["x" * 5_000, "a\0b", "\ud800", "data:," + "A" * 2_000_000], ids=lambda text: text[:4]
)
def test_fault_a_string_that_cannot_be_a_path_is_hashed_as_a_string(text: str) -> None:
    expected = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    assert compute_image_hash(text) == expected


def test_fault_a_changed_file_is_another_picture(tmp_path: Path) -> None:
    """What the name alone would hide."""
    cache = VisionEmbeddingCache()
    path = picture(tmp_path, "a.png", b"old")
    cache.set_pixel_values([path], PIXELS)
    picture(tmp_path, "a.png", b"new")
    assert cache.get_pixel_values([path]) is None


# --- bad input ----------------------------------------------------------------------------------


class Sizeless:
    """Says that it has bytes, not how many."""

    nbytes = "many"


def test_a_value_without_a_size_is_refused_by_name() -> None:
    cache = VisionEmbeddingCache()
    cache.set_pixel_values(["a"], PIXELS)
    with pytest.raises(TypeError, match=r"PixelOnlyCacheEntry\.pixel_values\['x'\]` \(Sizeless\)"):
        cache.set_pixel_values(["a"], {"x": Sizeless()})
    kept = cache.get_pixel_values(["a"])
    assert kept is not None
    assert kept.pixel_values is PIXELS


def test_a_payload_with_a_cycle_is_refused_by_name() -> None:
    cache = VisionEmbeddingCache()
    knot: dict[str, object] = {}
    knot["self"] = [knot]
    with pytest.raises(ValueError, match=r"extra_kwargs\['self'\]\[0\]` contains itself"):
        cache.set_pixel_cache(["a"], "p", PIXELS, IDS, extra_kwargs=knot)
    assert not any(cache.get_stats().values())


@pytest.mark.parametrize("images", [[["a"]], [None], [b"a"], "a"], ids=repr)
def test_images_that_are_no_strings_are_refused_by_name(images: list[str]) -> None:
    cache = VisionEmbeddingCache()
    with pytest.raises(TypeError, match="image"):
        cache.get_pixel_values(images)
    with pytest.raises(TypeError, match="image"):
        cache.set_pixel_values(images, PIXELS)
    assert not any(cache.get_stats().values())


def test_a_prompt_that_is_no_string_is_refused_by_name() -> None:
    """None above all: it must not share an entry with pixels that have no prompt."""
    prompt: str = None  # type: ignore[assignment]
    with pytest.raises(TypeError, match="`prompt`"):
        VisionEmbeddingCache().get_pixel_cache(["a"], prompt)


@pytest.mark.parametrize("name", ["max_pixel_entries", "max_encoding_bytes"])
def test_a_negative_limit_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        VisionEmbeddingCache(**{name: -1})  # type: ignore[arg-type]
