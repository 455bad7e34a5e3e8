from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.pipeline.fakes import MemoryLedger, Rig, write_items
from vcache_cli.engines import ThreadEngine
from vcache_cli.items import MediaItem
from vcache_cli.pipeline import CheckReport, check_items


def report_of(rig: Rig, items: list[MediaItem]) -> CheckReport:
    run = rig.make()
    parts = run._parts
    report = CheckReport()
    outcomes = check_items(
        zip(items),
        triage=parts.triage,
        prepare=replace(rig.prepare(), only_key=True),
        workers=ThreadEngine(2),
    )
    for outcome in outcomes:
        report.add(outcome)
    return report


def test_coverage_is_what_a_warm_leaves(tmp_path: Path) -> None:
    items = write_items(tmp_path, [b"IMG 1", b"IMG 22", b"IMG 22", b"VID", b"<html>"])
    rig = Rig()
    before = report_of(rig, items)
    assert (before.warm, before.cold, before.unreadable, before.skipped) == (0, 3, 1, 1)
    rig.run(items[:1])
    partly = report_of(rig, items)
    assert (partly.warm, partly.cold) == (1, 2)
    rig.run(items)
    after = report_of(rig, items)
    assert (after.warm, after.cold, after.unreadable) == (3, 0, 1)
    assert after.coverage == 0.75
    assert [each["source"] for each in after.cold_items] == [items[4].source]


def test_a_check_encodes_nothing_and_learns_nothing(tmp_path: Path) -> None:
    items = write_items(tmp_path, [b"IMG 1"])
    ledger = MemoryLedger()
    rig = Rig(ledger=ledger)
    report_of(rig, items)
    assert rig.encoder.encoded == 0
    assert not ledger.seen
    assert not rig.store.entries


def test_nothing_to_cover_is_covered() -> None:
    assert CheckReport().coverage == 1.0


def test_the_list_of_cold_items_is_capped_and_says_so(tmp_path: Path) -> None:
    (item,) = write_items(tmp_path, [b"IMG 1"])
    report = CheckReport()
    (outcome,) = Rig(retry_errors=True).run([MediaItem(str(tmp_path / "gone"))])
    for _ in range(1_001):
        report.add(outcome)
    document = report.as_json()
    assert len(document["cold_items"]) == 1_000
    assert document["cold_items_omitted"] == 1
    assert document["unreadable"] == 1_001
    assert item.source.endswith("0000.jpg")
