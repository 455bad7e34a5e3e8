from __future__ import annotations

from vcache_cli.items import MediaItem
from vcache_cli.outcome import Failure, Outcome, Status
from vcache_cli.pipeline.copies import Copies


def outcome(path: str, key: str, status: Status = Status.PRESENT) -> Outcome:
    return Outcome(MediaItem(path), status, key=key)


def test_only_the_first_of_a_key_is_worked_on() -> None:
    copies = Copies()
    assert copies.is_first("k")
    assert not copies.is_first("k")
    assert copies.is_first("another")


def test_a_copy_waits_for_the_first_and_shares_its_success() -> None:
    copies = Copies()
    copies.is_first("k")
    assert copies.settle(outcome("b", "k")) is None
    assert copies.waiting == 1
    (copy,) = copies.end(outcome("a", "k", Status.STORED))
    assert (copy.item.path, copy.status) == ("b", Status.COPY)
    assert copies.waiting == 0


def test_a_copy_shares_the_failure_of_the_first() -> None:
    copies = Copies()
    copies.is_first("k")
    copies.settle(outcome("b", "k"))
    failure = Failure("encode", "refused", "no")
    (copy,) = copies.end(outcome("a", "k", Status.FAILED)._replace(failure=failure))
    assert (copy.status, copy.failure) == (Status.FAILED, failure)
    assert copies.is_first("k")  # a later one may try again


def test_a_file_seen_on_the_disk_before_its_writing_was_noted_is_a_copy_too() -> None:
    """The first is published before the coordinator hears of it."""
    copies = Copies()
    copies.is_first("k")
    assert copies.settle(outcome("late", "k", Status.PRESENT)) is None


def test_a_clip_whose_frames_were_published_and_not_yet_noted_is_a_copy() -> None:
    copies = Copies()
    copies.is_first("frame 0")
    clip = outcome("late.mp4", "", Status.PRESENT)._replace(key=None, keys=("frame 0", "frame 1"))
    settled = copies.settle(clip)
    assert settled
    assert settled.status is Status.COPY


def test_what_was_there_before_the_run_is_present() -> None:
    copies = Copies()
    there = outcome("b", "k")
    assert copies.settle(there) is there


def test_later_copies_are_told_for_as_long_as_their_key_is_remembered() -> None:
    copies = Copies(recent=2)
    for key in ("a", "b", "c"):
        copies.is_first(key)
        copies.end(outcome(key, key, Status.STORED))
    statuses = {key: copies.settle(outcome("x", key)) for key in ("a", "c")}
    assert {key: each and each.status for key, each in statuses.items()} == {
        "a": Status.PRESENT,
        "c": Status.COPY,
    }
    assert not copies.is_first("c")
