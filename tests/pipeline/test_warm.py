from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.pipeline.fakes import FakeEncoder, MemoryStore, Rig, item_of, write_items
from vcache_cli.errors import StoreFullError
from vcache_cli.items import MediaItem
from vcache_cli.outcome import Outcome, Status

if TYPE_CHECKING:
    import pytest


def counts(outcomes: Iterable[Outcome]) -> Counter[Status]:
    return Counter(outcome.status for outcome in outcomes)


def test_every_kind_of_item_leaves_as_its_own_outcome(tmp_path: Path) -> None:
    contents = [b"IMG one", b"IMG broken", b"VID clip", b"<html>", b"IMG one", b"IMG" + b"x" * 63]
    items = write_items(tmp_path, contents)
    items.append(item_of(tmp_path / "gone.jpg"))
    outcomes = Rig().run(items)
    assert counts(outcomes) == {
        Status.STORED: 1,
        Status.COPY: 1,
        Status.SKIPPED: 1,
        Status.FAILED: 4,
    }
    kinds = {o.failure.kind for o in outcomes if o.failure}
    assert kinds == {"corrupt", "video", "unrecognised", "refused", "not_found"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    choices=st.lists(
        st.sampled_from(
            [b"IMG a", b"IMG b", b"IMG broken", b"VID", b"text", b"IMG" + b"x" * 63, b"IMG c alpha"]
        ),
        max_size=30,
    ),
    batch_size=st.integers(1, 5),
    workers=st.integers(1, 3),
)
def test_each_item_leaves_exactly_once(
    tmp_path_factory: pytest.TempPathFactory, choices: list[bytes], batch_size: int, workers: int
) -> None:
    items = write_items(tmp_path_factory.mktemp("corpus"), choices)
    rig = Rig(batch_size=batch_size, workers=workers)
    first = rig.run(items)
    assert sorted(o.item.path for o in first) == [item.path for item in items]
    good = {choice for choice in choices if choice in {b"IMG a", b"IMG b", b"IMG c alpha"}}
    assert counts(first)[Status.STORED] == len(good) == len(rig.store.entries)
    assert rig.encoder.encoded == len(good)
    second = rig.run(items)
    assert Status.STORED not in counts(second)
    assert Status.COPY not in counts(second)
    assert counts(second)[Status.PRESENT] == sum(choice in good for choice in choices)


def test_a_second_run_opens_no_file_and_encodes_nothing(tmp_path: Path) -> None:
    items = write_items(tmp_path, [b"IMG 1", b"IMG 22", b"IMG broken", b"VID", b"note"])
    rig = Rig()
    rig.run(items)
    for path in tmp_path.iterdir():
        path.unlink()  # the stats in the items still say what was found
    before = rig.encoder.encoded
    again = rig.run(items)
    assert counts(again) == {Status.PRESENT: 2, Status.FAILED: 2, Status.SKIPPED: 1}
    assert rig.encoder.encoded == before
    assert len(rig.store.touched) == 2


def test_failed_items_are_tried_again_only_when_asked(tmp_path: Path) -> None:
    items = write_items(tmp_path, [b"IMG broken"])
    rig = Rig()
    (first,) = rig.run(items)
    (second,) = rig.run(items)
    assert second.failure == first.failure
    assert second.bytes_read == 0
    rig.retry_errors = True
    (third,) = rig.run(items)
    assert third.bytes_read > 0


def test_a_memo_never_proves_presence(tmp_path: Path) -> None:
    items = write_items(tmp_path, [b"IMG 1", b"IMG 22"])
    rig = Rig()
    rig.run(items)
    rig.store.entries.clear()
    assert counts(rig.run(items)) == {Status.STORED: 2}


def test_a_full_store_ends_the_run_and_keeps_what_was_written(tmp_path: Path) -> None:
    items = write_items(tmp_path, [b"IMG" + b"x" * number for number in range(60)])
    store = MemoryStore(capacity=5, error=StoreFullError("disk full"))
    rig = Rig(store=store, batch_size=1)
    run = rig.make()
    outcomes = list(run.run(items))
    assert isinstance(run.error, StoreFullError)
    assert counts(outcomes)[Status.STORED] == 5
    assert len(outcomes) < 60
    store.capacity = 1_000
    again = counts(rig.run(items))
    assert again[Status.PRESENT] == 5
    assert again[Status.STORED] == 55


def test_copies_share_the_fate_of_the_first(tmp_path: Path) -> None:
    items = write_items(tmp_path, [b"IMG" + b"x" * 63] * 3 + [b"IMG ok"] * 3)
    outcomes = Rig(batch_size=2).run(items)
    assert counts(outcomes) == {Status.FAILED: 3, Status.STORED: 1, Status.COPY: 2}
    assert {o.failure.kind for o in outcomes if o.failure} == {"refused"}


def test_stop_finishes_what_is_in_flight_and_takes_no_more(tmp_path: Path) -> None:
    items = write_items(tmp_path, [b"IMG" + b"x" * number for number in range(50)])
    rig = Rig(batch_size=2)
    run = rig.make()
    outcomes = []
    for outcome in run.run(items):
        outcomes.append(outcome)
        run.stop()
    assert 0 < len(outcomes) < 50
    assert counts(outcomes)[Status.STORED] == len(rig.store.entries)


def test_a_corpus_without_end_is_walked_no_further_than_the_work_needs(tmp_path: Path) -> None:
    """Memory does not grow with the corpus: the walk waits for the encoder."""
    path = write_items(tmp_path, [b"IMG only"])[0].path
    taken = 0

    def endless() -> Iterator[MediaItem]:
        nonlocal taken
        for _ in itertools.count():
            taken += 1
            yield MediaItem(path)

    rig = Rig(encoder=FakeEncoder(concurrency=1))
    run = rig.make().run(endless())
    for _ in range(20):
        next(run)
    run.close()
    assert taken < 400


def test_what_a_picture_loses_is_said(tmp_path: Path) -> None:
    (outcome,) = Rig().run(write_items(tmp_path, [b"IMG alpha"]))
    assert [notice.kind for notice in outcome.notices] == ["alpha_dropped"]


def test_a_file_that_is_no_picture_is_skipped_unless_its_name_or_the_user_says_so(
    tmp_path: Path,
) -> None:
    (notes,) = write_items(tmp_path, [b"caption"], suffix=".txt")
    named = MediaItem(notes.path, notes.stat, explicit=True)
    (html,) = write_items(tmp_path, [b"<html>"], suffix=".jpg")
    rig = Rig()
    assert [o.status for o in rig.run([notes])] == [Status.SKIPPED]
    assert [o.status for o in Rig().run([named])] == [Status.FAILED]
    assert [o.status for o in rig.run([html])] == [Status.FAILED]
