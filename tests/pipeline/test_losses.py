from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.fakes import RECIPE, FakeDecoder, FakePreprocessor, item_of, write_items
from vcache_cli.digest import digest_bytes
from vcache_cli.items import Frames, Group, Kind
from vcache_cli.outcome import Status
from vcache_cli.pipeline import PrepareItem
from vcache_cli.pipeline.losses import Noted, lost_outcome
from vcache_cli.protocols import Isolable, Loss
from vcache_cli.targets.native import NativeTarget

CRASH = Loss("crashed", "killed by SIGSEGV", 0.5)


class HungryDecoder(FakeDecoder):
    """Has no memory for any picture."""

    def decode(self, data: bytes) -> Frames:
        raise MemoryError


def work(decoder: FakeDecoder | None = None) -> PrepareItem:
    decoder = decoder or FakeDecoder()
    return PrepareItem(
        RECIPE, NativeTarget(), decoder, FakePreprocessor(), lambda _key: False, 1_000_000
    )


def test_what_is_known_is_noted_before_anything_is_decoded(tmp_path: Path) -> None:
    [item] = write_items(tmp_path, [b"IMG broken"])
    noted: list[object] = []
    prepare = work()
    assert isinstance(prepare, Isolable)
    prepare.noting(noted.append)(item)
    assert noted == [Noted(item.source, digest_bytes(b"IMG broken"), Kind.IMAGE, 10)]


def test_a_crash_is_told_with_the_digest_so_that_it_is_remembered(tmp_path: Path) -> None:
    item = item_of(tmp_path / "picture.jpg")
    outcome = lost_outcome(item, CRASH, Noted(item.source, "a" * 64, Kind.IMAGE, 10))
    assert outcome.status is Status.FAILED
    assert outcome.failure
    assert (outcome.failure.stage, outcome.failure.kind) == ("decode", "decoder_crashed")
    assert "SIGSEGV" in outcome.failure.message
    assert not outcome.failure.transient
    assert (outcome.source_sha256, outcome.kind, outcome.bytes_read) == ("a" * 64, Kind.IMAGE, 10)


def test_what_died_while_it_was_read_is_told_without(tmp_path: Path) -> None:
    outcome = lost_outcome(item_of(tmp_path / "picture.jpg"), CRASH, None)
    assert outcome.failure
    assert outcome.failure.stage == "digest"
    assert outcome.source_sha256 is None


@pytest.mark.parametrize(
    ("loss", "transient"),
    [
        (Loss("timeout", "not done after 1 s", 1.0), False),
        (Loss("memory", "needs more", 1.0), True),
        (Loss("crashed", "killed by SIGTERM", 1.0, outside=True), True),
    ],
)
def test_what_another_run_may_not_meet_is_not_remembered(
    tmp_path: Path, loss: Loss, *, transient: bool
) -> None:
    outcome = lost_outcome(item_of(tmp_path / "picture.jpg"), loss, None)
    assert outcome.failure
    assert outcome.failure.kind == f"decoder_{loss.kind}"
    assert outcome.failure.transient is transient


def test_the_picture_of_a_group_that_killed_it_is_named(tmp_path: Path) -> None:
    first, second = (item_of(tmp_path / name) for name in ("first.jpg", "second.jpg"))
    noted = Noted(second.source, "a" * 64, Kind.IMAGE, 10)
    outcome = lost_outcome(Group((first, second)), CRASH, noted)
    assert outcome.failure
    assert second.source in outcome.failure.message
    assert outcome.source_sha256 is None


def test_a_lack_of_memory_is_the_workers_to_tell(tmp_path: Path) -> None:
    [item] = write_items(tmp_path, [b"IMG"])
    prepare = work(HungryDecoder())
    outcome = prepare(item)
    assert getattr(outcome, "failure").kind == "out_of_memory"  # noqa: B009  not a Prepared
    with pytest.raises(MemoryError):
        prepare.noting(lambda _noted: None)(item)
