from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.fakes import Rig, write_items
from vcache_cli.errors import UsageError
from vcache_cli.items import Group, WarmItem
from vcache_cli.outcome import Status
from vcache_cli.pipeline.lookahead import Lookahead


def warmed(tmp_path: Path, count: int) -> tuple[Rig, list[WarmItem]]:
    rig = Rig()
    items = write_items(tmp_path, [b"IMG %d" % number for number in range(count)])
    rig.run(items)
    return rig, [*items]


def lookahead_of(rig: Rig, *, most: int = 16) -> Lookahead:
    return Lookahead(rig.make()._parts.triage, most=most)


@pytest.fixture
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items are never slow to come, whatever the machine."""
    monkeypatch.setattr("vcache_cli.pipeline.lookahead._PATIENCE_SECONDS", math.inf)


@pytest.mark.usefixtures("_patience")
def test_items_that_are_there_are_looked_up_more_and_more_at_a_time(tmp_path: Path) -> None:
    rig, items = warmed(tmp_path, 60)
    chunks = list(lookahead_of(rig).over(zip(items)))
    sizes = [len(chunk) for chunk in chunks]
    assert sizes[:5] == [1, 2, 4, 7, 11]
    assert max(sizes) == 16
    found = [pair for chunk in chunks if isinstance(chunk, list) for pair in chunk]
    assert [item for item, _ in found] == items
    assert all(outcome and outcome.status is Status.PRESENT for _, outcome in found)


def test_items_that_have_to_be_worked_on_are_found_one_at_a_time(tmp_path: Path) -> None:
    items = write_items(tmp_path, [b"IMG %d" % number for number in range(9)])
    assert [len(chunk) for chunk in lookahead_of(Rig()).over(zip(items))] == [1] * 9


def test_looking_ahead_says_what_one_lookup_says(tmp_path: Path) -> None:
    contents = [b"IMG 1", b"IMG 22", b"IMG broken", b"VID", b"note", b"IMG 333"]
    items: list[WarmItem] = [*write_items(tmp_path, contents)]
    rig = Rig()
    rig.run(write_items(tmp_path, contents)[:-1])
    items.append(Group(write_items(tmp_path, contents)[0].files))
    triage = rig.make()._parts.triage
    assert Lookahead(triage)(items) == [triage(item) for item in items]


def test_no_item_waits_for_one_that_is_long_in_coming(tmp_path: Path) -> None:
    rig, items = warmed(tmp_path, 6)

    def slow() -> Iterator[WarmItem]:
        for item in items:
            time.sleep(0.11)
            yield item

    assert [len(chunk) for chunk in lookahead_of(rig).over(zip(slow()))] == [1] * 6


@pytest.mark.usefixtures("_patience")
def test_what_was_found_before_the_corpus_broke_is_given_first(tmp_path: Path) -> None:
    rig, items = warmed(tmp_path, 6)

    def broken() -> Iterator[WarmItem]:
        yield from items[:5]
        raise UsageError("no more")

    found = lookahead_of(rig).over(zip(broken()))
    assert sum(len(next(found)) for _ in range(3)) == 5
    with pytest.raises(UsageError, match="no more"):
        next(found)
