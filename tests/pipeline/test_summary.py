from __future__ import annotations

from vcache_cli.items import MediaItem
from vcache_cli.outcome import Failure, Notice, Outcome, Status
from vcache_cli.pipeline import WarmTotals

FAILED = Outcome(
    MediaItem("a\udce9.jpg"), Status.FAILED, failure=Failure("decode", "corrupt", "broken")
)


def test_counts_bytes_and_seconds_add_up() -> None:
    totals = WarmTotals()
    stored = Outcome(
        MediaItem("b"), Status.STORED, bytes_read=5, bytes_written=7, seconds={"encode": 0.5}
    )
    for outcome in (stored, stored, FAILED):
        totals.add([outcome])
    document = totals.as_json(elapsed_seconds=2.0)
    assert document["items"] == {
        "total": 3,
        "stored": 2,
        "present": 0,
        "copy": 0,
        "skipped": 0,
        "failed": 1,
    }
    assert document["bytes"] == {"read": 10, "written": 14}
    assert document["seconds"]["encode"] == 1.0
    assert document["seconds"]["total"] == 2.0
    assert document["items_per_second"] == 1.5


def test_names_that_are_no_text_are_spelled_out() -> None:
    totals = WarmTotals()
    totals.add([FAILED])
    assert totals.failures[0]["source"] == "a\\xe9.jpg"


def test_lists_are_capped_and_say_how_many_are_left_out() -> None:
    totals = WarmTotals()
    noticed = Outcome(MediaItem("b"), Status.STORED, notices=(Notice("k", "m"),))
    for _ in range(1_002):
        totals.add([FAILED])
        totals.add([noticed])
    document = totals.as_json(elapsed_seconds=1.0)
    assert len(document["failures"]) == len(document["warnings"]) == 1_000
    assert document["failures_omitted"] == document["warnings_omitted"] == 2
    assert document["items"]["failed"] == 1_002
