"""Any sequence of calls, restarts, outside writers and damage, against a plain dict."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.serving.feature_case import MODEL, entries, features, image
from tests.serving.omlx_files import file_of, read_file, rules_met, write_file
from vcache_cli.serving import VisionFeatureSSDCache

IMAGES = st.integers(0, 5)
VALUES = st.integers(1, 1000)


class FeatureMachine(RuleBasedStateMachine):
    """The model holds, of each image, what a get must give."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="vcache-model-"))
        self.model: dict[int, int] = {}
        self.counts = dict.fromkeys(("hits", "misses", "saves", "errors"), 0)
        self.open()

    def open(self) -> None:
        self.cache = VisionFeatureSSDCache(self.root, max_memory_entries=2)
        self.counts = dict.fromkeys(self.counts, 0)

    @rule(number=IMAGES, value=VALUES, listed=st.booleans())
    def put(self, number: int, value: int, *, listed: bool) -> None:
        array = features(value, 2)
        self.cache.put(image(number), MODEL, [array] if listed else array, grid=(1, 1, value))
        self.model[number] = value
        self.counts["saves"] += 1

    @rule(number=IMAGES)
    def get(self, number: int) -> None:
        found = self.cache.get(image(number), MODEL)
        value = self.model.get(number)
        self.counts["misses" if value is None else "hits"] += 1
        if value is None:
            assert found is None
        else:
            array = found[0] if isinstance(found, list) else found
            np.testing.assert_array_equal(array, features(value, 2))
        assert self.cache.get_grid(image(number), MODEL) == (value and (1, 1, value))

    @rule(number=IMAGES, value=VALUES)
    def another_server_writes(self, number: int, value: int) -> None:
        """Into an empty place: what memory holds already is not asked from the disk again."""
        if number not in self.model:
            write_file(
                self.root, image(number), MODEL, features(value, 2), grid_thw=f"[1,1,{value}]"
            )
            self.model[number] = value

    @rule(number=IMAGES)
    def damage(self, number: int) -> None:
        self.restart()
        path = file_of(self.root, image(number), MODEL)
        if path.exists():
            path.chmod(0o600)
            path.write_bytes(path.read_bytes()[:-1])
            assert self.cache.get(image(number), MODEL) is None
            self.counts["misses"] += 1
            self.counts["errors"] += 1
            del self.model[number]

    @rule()
    def flush(self) -> None:
        assert self.cache.flush(30)
        assert self.cache.stats["saves"] == self.counts["saves"]
        assert self.cache.size_bytes == sum(each.stat().st_size for each in entries(self.root))

    @rule()
    def restart(self) -> None:
        self.cache.close()
        self.open()

    @invariant()
    def counts_agree(self) -> None:
        stats = self.cache.stats
        assert stats["hits"] == self.counts["hits"]
        assert stats["misses"] == self.counts["misses"]
        assert stats["errors"] == self.counts["errors"]

    def teardown(self) -> None:
        self.cache.close()
        assert self.cache.stats["saves"] == self.counts["saves"]
        for path in entries(self.root):
            rules_met(self.root, path)
        assert len(entries(self.root)) == len(self.model)
        for number, value in self.model.items():
            _, tensors = read_file(file_of(self.root, image(number), MODEL))
            assert [data for _, _, data in tensors.values()] == [features(value, 2).tobytes()]
        shutil.rmtree(self.root)


class BoundedMachine(RuleBasedStateMachine):
    """Room for three files: whatever happens, exactly the three used last are there."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="vcache-model-"))
        write_probe = VisionFeatureSSDCache(self.root)
        write_probe.put(image(0), MODEL, features(1, 2))
        write_probe.close()
        self.limit_bytes = 3 * entries(self.root)[0].stat().st_size
        self.order: list[int] = [0]
        self.open()

    def open(self) -> None:
        self.cache = VisionFeatureSSDCache(self.root, self.limit_bytes, max_memory_entries=0)

    @rule(number=IMAGES)
    def put(self, number: int) -> None:
        self.cache.put(image(number), MODEL, features(number, 2))
        self.cache.flush()
        self.order = [*(each for each in self.order if each != number), number][-3:]

    @rule(number=IMAGES)
    def get(self, number: int) -> None:
        found = self.cache.get(image(number), MODEL)
        assert (found is not None) == (number in self.order)
        if found is not None:
            self.order = [*(each for each in self.order if each != number), number]

    @precondition(lambda self: len(self.order) > 1)
    @rule()
    def someone_deletes(self) -> None:
        file_of(self.root, image(self.order.pop(1)), MODEL).unlink()

    @rule()
    def restart(self) -> None:
        self.cache.close()
        self.open()

    @invariant()
    def the_directory_is_as_counted(self) -> None:
        found = set(entries(self.root))
        assert found == {file_of(self.root, image(number), MODEL) for number in self.order}
        assert self.cache.size_bytes == sum(path.stat().st_size for path in found)
        assert self.cache.size_bytes <= self.limit_bytes

    def teardown(self) -> None:
        self.cache.close()
        shutil.rmtree(self.root)


HALF = settings(max_examples=max(10, settings().max_examples // 2))
"""Each of the two machines takes half of the steps: both drive the same cache, on a disk."""

TestFeatures = FeatureMachine.TestCase
TestBounded = BoundedMachine.TestCase
TestFeatures.settings = TestBounded.settings = HALF
