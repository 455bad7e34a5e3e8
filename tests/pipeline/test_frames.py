"""Clips of which each frame is an entry: many Outcomes of frames, one of the clip."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.fakes import MemoryLedger
from vcache_cli.items import Frames, Kind, MediaItem
from vcache_cli.outcome import Failure, Outcome, Status
from vcache_cli.pipeline.frames import Bundle, Bundles, Still, frame_source, stills_of
from vcache_cli.pipeline.ledger import Notebook
from vcache_cli.pipeline.trace import Trace

FRAMES = (Status.STORED, Status.COPY, Status.PRESENT, Status.FAILED)


def bundle_of(path: str, count: int) -> Bundle:
    clip = MediaItem(path)
    rgb = np.arange(count * 12, dtype=np.uint8).reshape(count, 2, 2, 3)
    frames = Frames(rgb, tuple(float(at) for at in range(count)), indices=tuple(range(count)))
    keys = [f"{path}-{at}" for at in range(count)]
    stills = tuple(
        Still(clip, key, "d" * 64, frame)
        for key, frame in zip(keys, stills_of(frames), strict=True)
    )
    return Bundle(Trace(clip, source_sha256="d" * 64, kind=Kind.VIDEO, keys=tuple(keys)), stills)


def ended(still: Still, status: Status) -> Outcome:
    item = pickle.loads(pickle.dumps(still.item))  # noqa: S301  as of a worker process
    failure = Failure("encode", "refused", "no") if status is Status.FAILED else None
    return Outcome(item, status, still.key, failure=failure, bytes_written=5)


@given(
    clips=st.lists(st.lists(st.sampled_from(FRAMES), min_size=1, max_size=4), max_size=4),
    chance=st.randoms(use_true_random=False),
)
def test_each_clip_leaves_once_with_its_last_frame(
    clips: list[list[Status]], chance: object
) -> None:
    bundles = Bundles()
    waiting: list[tuple[Still, Status]] = []
    for number, statuses in enumerate(clips):
        bundle = bundle_of(f"clip{number}", len(statuses))
        waiting += zip(bundles.begin(pickle.loads(pickle.dumps(bundle))), statuses, strict=True)  # noqa: S301
    chance.shuffle(waiting)  # type: ignore[attr-defined]
    told = [bundles.fold(ended(still, status)) for still, status in waiting]
    whole = {each.item.path: each for each in told if each}
    assert len(whole) == len(clips) == sum(each is not None for each in told)
    for number, statuses in enumerate(clips):
        outcome = whole[f"clip{number}"]
        assert outcome.bytes_written == 5 * len(statuses)
        assert outcome.keys == tuple(f"clip{number}-{at}" for at in range(len(statuses)))
        assert (outcome.status is Status.FAILED) == (Status.FAILED in statuses)
        if Status.FAILED not in statuses:
            assert (outcome.status is Status.STORED) == (Status.STORED in statuses)
            assert (outcome.status is Status.PRESENT) == (set(statuses) == {Status.PRESENT})


def test_a_frame_that_fails_is_named() -> None:
    bundles = Bundles()
    first, second = bundles.begin(bundle_of("clip", 2))
    assert second.item.source == "clip::frame 1"
    assert bundles.fold(ended(second, Status.FAILED)) is None
    outcome = bundles.fold(ended(first, Status.STORED))
    assert outcome is not None
    assert outcome.failure == Failure("encode", "refused", "frame 1: no")
    assert outcome.item.source == "clip"


def test_what_is_of_no_clip_is_left_as_it_is() -> None:
    outcome = Outcome(MediaItem("a.png"), Status.STORED, "key")
    assert Bundles().fold(outcome) is outcome


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_a_clip_is_known_by_all_its_keys_or_not_at_all(cut: int) -> None:
    """A run may be killed while it writes: what is read first is written last."""

    class Cut(MemoryLedger):
        def remember_known(self, source_sha256: str, context: str, key: str) -> None:
            if len(self.keys) < cut:
                super().remember_known(source_sha256, context, key)

    ledger = Cut()
    outcome = Outcome(
        MediaItem("clip"), Status.STORED, None, "d" * 64, Kind.VIDEO, keys=("a", "b", "c")
    )
    Notebook(ledger, lambda: "context", keys_by_digest=False).write(outcome)
    known = [ledger.known(frame_source("d" * 64, at), "context") for at in range(4)]
    assert known == (["a", "b", "c", None] if cut == 3 else [None, *known[1:]])
    assert ledger.sources == [(key, ledger.sources[0][1]) for key in ("a", "b", "c")]
