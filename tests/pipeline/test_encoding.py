from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.fakes import RECIPE, FakeEncoder, MemoryStore
from vcache_cli.entry import Provenance
from vcache_cli.errors import EncodeError
from vcache_cli.items import Features, MediaItem, Pixels
from vcache_cli.pipeline.encoding import Batcher, EncodeBatch
from vcache_cli.pipeline.prepared import Prepared
from vcache_cli.pipeline.trace import Trace
from vcache_cli.targets.native import NativeTarget, native_key


def prepared(number: int, *, side: int = 1) -> Prepared:
    digest = f"{number:064x}"
    trace = Trace(MediaItem(f"{number}.jpg"), source_sha256=digest)
    key = native_key(RECIPE.stage, digest, RECIPE.digest)
    values = np.full((3, side, side), number, np.float32)
    return Prepared(trace, key, (Pixels({"pixel_values": values}, num_tokens=1),))


def encode(encoder: object, store: MemoryStore) -> EncodeBatch:
    return EncodeBatch(RECIPE, NativeTarget(), encoder, Provenance, store.submit)  # type: ignore[arg-type]


@given(shapes=st.lists(st.integers(1, 4), max_size=60), batch_size=st.integers(1, 7))
def test_a_batch_holds_one_shape_and_nothing_is_lost_or_kept(
    shapes: list[int], batch_size: int
) -> None:
    batcher = Batcher(batch_size, lambda pixels: pixels.shape_key)
    batches = []
    for number, side in enumerate(shapes):
        batch = batcher.add(prepared(number, side=side))
        if batch:
            batches.append(batch)
        waiting = number + 1 - sum(len(each) for each in batches)
        assert waiting < 4 * batch_size
    while batch := batcher.flush():
        batches.append(batch)
    assert all(len({item.pixels[0].shape_key for item in batch}) == 1 for batch in batches)
    assert all(0 < len(batch) <= batch_size for batch in batches)
    paths = sorted(item.trace.item.path for batch in batches for item in batch)
    assert paths == sorted(f"{number}.jpg" for number in range(len(shapes)))


@given(numbers=st.lists(st.integers(60, 70), unique=True, min_size=1))
def test_a_bad_item_never_costs_its_batch(numbers: list[int]) -> None:
    store = MemoryStore()
    written = encode(FakeEncoder(), store)([prepared(number) for number in numbers])
    failed = [each.prepared.trace.item.path for each in written if each.failed]
    assert failed == (["66.jpg"] if 66 in numbers else [])
    for each in written:
        if each.future:
            each.future.result()
    assert len(store.entries) == len(numbers) - len(failed)


class HungryEncoder(FakeEncoder):
    """Has memory for two items at once."""

    def encode(self, batch: Sequence[Pixels]) -> list[Features]:
        if len(batch) > 2:
            raise MemoryError
        return super().encode(batch)


class StarvedEncoder(FakeEncoder):
    """Has no memory at all."""

    def encode(self, batch: Sequence[Pixels]) -> list[Features]:
        raise MemoryError


def test_a_batch_too_large_for_memory_is_halved_until_it_fits() -> None:
    store = MemoryStore()
    written = encode(HungryEncoder(), store)([prepared(number) for number in range(8)])
    assert all(each.failed is None for each in written)


def test_no_memory_for_one_item_is_that_item_s_failure() -> None:
    (written,) = encode(StarvedEncoder(), MemoryStore())([prepared(1)])
    assert written.failed
    assert written.failed.failure
    assert written.failed.failure.kind == "out_of_memory"
    assert written.failed.failure.stage == "encode"


def test_what_waits_to_be_written_holds_no_pixels() -> None:
    """A hundred megabytes of patches become one of features."""
    (written,) = encode(FakeEncoder(), MemoryStore())([prepared(1)])
    assert written.entry
    assert written.prepared.pixels == ()


def test_an_error_that_is_no_item_s_fault_is_not_swallowed() -> None:
    class BrokenEncoder(FakeEncoder):
        def encode(self, batch: Sequence[Pixels]) -> list[Features]:
            raise KeyError("a fault of ours")

    try:
        encode(BrokenEncoder(), MemoryStore())([prepared(1)])
    except KeyError:
        return
    raise AssertionError("the fault was taken for an item's failure")


def test_entries_say_where_they_come_from() -> None:
    store = MemoryStore()
    (written,) = encode(FakeEncoder(), store)([prepared(5)])
    assert written.future
    written.future.result()
    (entry,) = store.entries.values()
    assert entry.provenance.source_sha256 == f"{5:064x}"
    assert entry.provenance.num_tokens == 1
    assert entry.provenance.created
    assert written.write_seconds() >= 0
    assert EncodeError("x", kind="k").stage == "encode"
