"""`VisionEmbeddingCache` against plain dicts, and under sixteen threads."""

from __future__ import annotations

import random
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.serving.threads import in_threads
from vcache_cli.serving.embedding import VisionEmbeddingCache
from vcache_cli.serving.embedding_entries import VisionCacheStats
from vcache_cli.serving.sizing import leaf_bytes

STRINGS = ["https://host/1.png", "https://host/2.png", "a", "b", "a\nb", ""]
FILES = ["file-0", "file-1", "broken"]
IMAGES = st.lists(st.sampled_from([*STRINGS, *FILES]), max_size=3)
PROMPTS = st.sampled_from(["", "p", "p\nq", "long" * 50])
SIZES_BYTES = st.integers(0, 800)


@dataclass
class Model:
    """One LRU as a dict, bounded as naively as can be."""

    max_entries: int
    max_bytes: int | None
    held: OrderedDict[Any, tuple[Any, int]] = field(default_factory=OrderedDict)

    def get(self, key: object) -> Any:  # noqa: ANN401
        """The value, or None."""
        if key not in self.held:
            return None
        self.held.move_to_end(key)
        return self.held[key][0]

    def set(self, key: object, value: object, size_bytes: int) -> None:
        """Keep it if it can be kept."""
        self.held.pop(key, None)
        self.held[key] = (value, size_bytes)
        if size_bytes > (self.max_bytes or size_bytes) or not self.max_entries:
            del self.held[key]
        while len(self.held) > self.max_entries or self.size_bytes() > (self.max_bytes or 10**9):
            self.held.popitem(last=False)

    def size_bytes(self) -> int:
        """Bytes of what is held."""
        return sum(size_bytes for _, size_bytes in self.held.values())


class EmbeddingCacheMachine(RuleBasedStateMachine):
    """Every answer and every count is the model's."""

    @initialize(
        entries=st.integers(0, 4),
        encodings=st.integers(0, 3),
        max_bytes=st.sampled_from([None, 1_000, 2_500]),
    )
    def start(self, entries: int, encodings: int, max_bytes: int | None) -> None:
        self.folder = TemporaryDirectory()
        self.files = {name: Path(self.folder.name) / name for name in FILES}
        for name in FILES[:2]:
            self.files[name].write_bytes(name.encode())
        self.files["broken"].symlink_to(self.files["broken"])
        self.cache = VisionEmbeddingCache(
            entries, encodings, max_pixel_bytes=max_bytes, max_encoding_bytes=max_bytes
        )
        self.pixel, self.pixel_only = Model(entries, max_bytes), Model(entries, max_bytes)
        self.encoding = Model(encodings, max_bytes)
        self.stats = VisionCacheStats()

    def names(self, images: list[str]) -> list[str]:
        """As the server would pass them."""
        return [str(self.files.get(image, image)) for image in images]

    def contents(self, images: list[str]) -> tuple[bytes, ...]:
        """What the images are: the model's key."""
        return tuple(
            self.files[image].read_bytes() if image in self.files else image.encode()
            for image in images
        )

    def expect(self, entry: Any, value: object, seconds: float, *, pixel: bool) -> None:  # noqa: ANN401
        """Count a lookup and compare."""
        hit = value is not None
        self.stats.pixel_cache_hits += pixel and hit
        self.stats.pixel_cache_misses += pixel and not hit
        self.stats.encoding_cache_hits += (not pixel) and hit
        self.stats.encoding_cache_misses += (not pixel) and not hit
        self.stats.total_time_saved += seconds if hit else 0.0
        assert (entry is not None) == hit
        if hit:
            assert (entry.pixel_values if pixel else entry.logits) is value

    @rule(images=IMAGES, prompt=PROMPTS, size_bytes=SIZES_BYTES)
    def set_pixel_cache(self, images: list[str], prompt: str, size_bytes: int) -> None:
        value, names = np.zeros(size_bytes, np.uint8), self.names(images)
        self.cache.set_pixel_cache(names, prompt, value, None, processing_time=0.5)
        if images and "broken" not in images:
            charged = size_bytes + 3 * leaf_bytes(None) + leaf_bytes(0.5)
            self.pixel.set((self.contents(images), prompt), value, charged)
            self.stats.total_images_processed += len(images)

    @rule(images=IMAGES, size_bytes=SIZES_BYTES)
    def set_pixel_values(self, images: list[str], size_bytes: int) -> None:
        value, names = np.zeros(size_bytes, np.uint8), self.names(images)
        self.cache.set_pixel_values(names, value, processing_time=0.25)
        if images and "broken" not in images:
            charged = size_bytes + leaf_bytes(None) + leaf_bytes(0.25)
            self.pixel_only.set(self.contents(images), value, charged)

    @rule(images=IMAGES, prompt=PROMPTS, size_bytes=SIZES_BYTES)
    def set_encoding_cache(self, images: list[str], prompt: str, size_bytes: int) -> None:
        value, names = np.zeros(size_bytes, np.uint8), self.names(images)
        self.cache.set_encoding_cache(names, prompt, value, 1, None, encoding_time=2.0)
        if images and "broken" not in images:
            charged = size_bytes + leaf_bytes(None) + leaf_bytes(1) + leaf_bytes(2.0)
            self.encoding.set((self.contents(images), prompt), value, charged)

    @rule(images=IMAGES, prompt=PROMPTS)
    def get_pixel_cache(self, images: list[str], prompt: str) -> None:
        entry = self.cache.get_pixel_cache(self.names(images), prompt)
        if images:
            known = "broken" not in images
            value = self.pixel.get((self.contents(images), prompt)) if known else None
            self.expect(entry, value, 0.5, pixel=True)

    @rule(images=IMAGES)
    def get_pixel_values(self, images: list[str]) -> None:
        entry = self.cache.get_pixel_values(self.names(images))
        if images:
            value = self.pixel_only.get(self.contents(images)) if "broken" not in images else None
            self.expect(entry, value, 0.25, pixel=True)

    @rule(images=IMAGES, prompt=PROMPTS)
    def get_encoding_cache(self, images: list[str], prompt: str) -> None:
        entry = self.cache.get_encoding_cache(self.names(images), prompt)
        if images:
            known = "broken" not in images
            value = self.encoding.get((self.contents(images), prompt)) if known else None
            self.expect(entry, value, 2.0, pixel=False)

    @rule(name=st.sampled_from(FILES[:2]), content=st.sampled_from([b"file-0", b"a", b"new"]))
    def change_a_file(self, name: str, content: bytes) -> None:
        """It is another picture then, or the same as another file or string."""
        self.files[name].write_bytes(content)

    @rule()
    def clear(self) -> None:
        self.cache.clear()
        self.stats = VisionCacheStats()
        for model in (self.pixel, self.pixel_only, self.encoding):
            model.held.clear()

    @invariant()
    def counts_and_sizes_agree(self) -> None:
        sizes = {
            "pixel_cache_size": len(self.pixel.held),
            "pixel_only_cache_size": len(self.pixel_only.held),
            "encoding_cache_size": len(self.encoding.held),
        }
        assert self.cache.get_stats() == {**self.stats.to_dict(), **sizes}

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestEmbeddingCache = EmbeddingCacheMachine.TestCase


def test_sixteen_threads_lose_no_count_and_no_byte() -> None:
    """What comes back is what was set under that name; every call is counted once."""
    cache, rounds = VisionEmbeddingCache(8, 4, max_pixel_bytes=40_000), 200
    hits = [0] * 16

    def work(number: int) -> None:
        chance = random.Random(number)
        for _ in range(rounds):
            name = chance.randrange(16)
            images, prompt = [str(name)], f"prompt {name % 3}"
            pixels, only = cache.get_pixel_cache(images, prompt), cache.get_pixel_values(images)
            encoding = cache.get_encoding_cache(images, prompt)
            hits[number] += sum(entry is not None for entry in (pixels, only, encoding))
            for found in (pixels, only):
                assert found is None or (found.pixel_values == name).all()
            assert encoding is None or encoding.first_token == name
            value = np.full(1_000 + name, name, np.uint16)
            cache.set_pixel_cache(images, prompt, value, None, processing_time=1.0)
            cache.set_pixel_values(images, value, processing_time=1.0)
            cache.set_encoding_cache(images, prompt, value, name, None, encoding_time=1.0)

    in_threads(16, work)
    stats, total = cache.stats, 16 * rounds
    assert stats.pixel_cache_hits + stats.pixel_cache_misses == 2 * total
    assert stats.encoding_cache_hits + stats.encoding_cache_misses == total
    assert stats.pixel_cache_hits + stats.encoding_cache_hits == sum(hits)
    assert stats.total_time_saved == sum(hits)
    assert stats.total_images_processed == total
    for level in (cache._pixel, cache._pixel_only):
        sizes = [leaf_bytes(level.lru.peek(key)) for key in level.lru.keys()]  # noqa: SIM118
        assert sum(sizes) == level.lru.total_bytes <= 40_000
