from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.store.care import make_store
from vcache_cli.store.directory_state import DirectoryState
from vcache_cli.store.index_directories import Names
from vcache_cli.store.index_entries import Totals
from vcache_cli.store.meta import StoreRoot
from vcache_cli.store.use import Use

KEYS = [f"ab{number:062x}" for number in range(40)]
"""All of one shard, so that it is asked often."""
HOUR_NS = 3_600 * 10**9


@dataclass
class Uses:
    """An index that was told of all entries of a shard, and of no other."""

    used_ns: dict[str, int]
    marked: dict[str, int] = field(default_factory=dict)
    named: dict[str, Names] = field(default_factory=dict)

    def totals(self) -> Totals:
        return Totals(len(self.used_ns), 0, 0)

    def count_in(self, shard: str) -> int:
        assert shard == "ab"
        return len(self.used_ns)

    def used_within(self, shard: str, begin_ns: int, end_ns: int) -> Sequence[str]:
        assert shard == "ab"
        return [key for key, used_ns in self.used_ns.items() if begin_ns <= used_ns <= end_ns]

    def used_otherwise(self, shard: str, begin_ns: int, end_ns: int) -> Sequence[str]:
        return [*self.used_ns.keys() - {*self.used_within(shard, begin_ns, end_ns)}]

    def has_names(self, shard: str, state: DirectoryState) -> bool:
        return shard in self.named and self.named[shard].state == state

    def keep_names(self, shard: str, names: Names) -> None:
        self.named[shard] = names

    def mark_used(self, key: str, mtime_ns: int) -> None:
        self.marked[key] = mtime_ns


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    root = make_store(tmp_path / "store")
    shard = root.path / "ab"
    shard.mkdir(exist_ok=True)
    for key in KEYS:
        (root.path / root.layout.path_of(key)).write_bytes(b"")
    settle(shard)
    return root


def settle(shard: Path) -> None:
    """As if nothing had happened in it for a while."""
    then = time.time() - 60
    os.utime(shard, (then, then))


def counting(root: StoreRoot, used_ns: dict[str, int]) -> tuple[Use, Uses, list[str]]:
    touched: list[str] = []
    uses = Uses(used_ns)
    return Use(root, touched.append, uses=uses), uses, touched


def test_entries_of_a_shard_that_was_read_need_no_look_of_their_own(root: StoreRoot) -> None:
    use, uses, touched = counting(root, dict.fromkeys(KEYS, time.time_ns()))
    assert all(map(use, KEYS[:3]))
    assert len(uses.marked) == 3
    uses.marked.clear()
    assert use.are_there([*KEYS, "ac" + "0" * 62, "../x"]) == [*map(bool, KEYS), False, False]
    assert not uses.marked
    assert not touched


def test_what_is_removed_after_its_shard_was_read_is_missed_after_50_ms(
    root: StoreRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = time.time_ns()
    monkeypatch.setattr("vcache_cli.store.listings.time.time_ns", lambda: begun)
    use, _, _ = counting(root, dict.fromkeys(KEYS, begun))
    use.are_there(KEYS)
    (root.path / root.layout.path_of(KEYS[3])).unlink()
    monkeypatch.setattr("vcache_cli.store.listings.time.time_ns", lambda: begun + 50 * 10**6)
    assert use.are_there(KEYS) == [key != KEYS[3] for key in KEYS]


@pytest.mark.parametrize("age_seconds", [0, 7200], ids=["used lately", "not used lately"])
def test_a_shard_whose_files_the_index_knows_is_not_read_again(
    root: StoreRoot, age_seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    used_ns = {**dict.fromkeys(KEYS, time.time_ns()), KEYS[7]: time.time_ns() - age_seconds * 10**9}
    use, uses, _ = counting(root, used_ns)
    use.are_there(KEYS)
    seen = DirectoryState.of(os.stat(root.path / "ab"))
    assert uses.named == {"ab": Names(seen, len(KEYS))}
    again, uses_again, _ = counting(root, used_ns)
    uses_again.named = uses.named
    monkeypatch.setattr("vcache_cli.store.listings.os.scandir", None)
    again.are_there(KEYS[:20])
    uses_again.marked.clear()
    assert all(again.are_there(KEYS))
    assert [*uses_again.marked] == ([KEYS[7]] if age_seconds else [])


def test_a_shard_that_changed_since_is_read_again(root: StoreRoot) -> None:
    used_ns = dict.fromkeys(KEYS, time.time_ns())
    use, uses, _ = counting(root, used_ns)
    use.are_there(KEYS)
    before = dict(uses.named)
    (root.path / root.layout.path_of(KEYS[3])).unlink()
    settle(root.path / "ab")
    again, uses_again, _ = counting(root, used_ns)
    uses_again.named = dict(before)
    for _ in range(2):
        assert again.are_there(KEYS) == [key != KEYS[3] for key in KEYS]
    assert uses_again.named == before  # a row has no file: nothing new is known of the shard


def test_a_row_without_a_file_that_was_not_used_lately_is_seen_too(root: StoreRoot) -> None:
    gone = "ab" + "1" * 62
    use, uses, _ = counting(root, {**dict.fromkeys(KEYS, time.time_ns()), gone: 0})
    assert all(use.are_there(KEYS))
    assert not uses.named


def test_few_questions_do_not_read_a_large_shard(root: StoreRoot) -> None:
    use, uses, _ = counting(root, dict.fromkeys(KEYS, time.time_ns()))
    assert all(use.are_there(KEYS))
    assert uses.named
    crowd = {f"ab{number:062x}": 0 for number in range(1000, 1000 + 64 * 256 * len(KEYS))}
    use, uses, _ = counting(root, {**dict.fromkeys(KEYS, time.time_ns()), **crowd})
    assert all(use.are_there(KEYS[1:]))
    assert not uses.named


def test_what_is_no_file_is_no_entry_however_it_is_looked_for(root: StoreRoot) -> None:
    for key in KEYS[:2]:
        (root.path / root.layout.path_of(key)).unlink()
    (root.path / root.layout.path_of(KEYS[0])).symlink_to(root.layout.path_of(KEYS[5])[3:])
    (root.path / root.layout.path_of(KEYS[1])).mkdir()
    settle(root.path / "ab")
    use, _, _ = counting(root, dict.fromkeys(KEYS, time.time_ns()))
    for _ in range(2):
        assert use.are_there(KEYS) == [False, False, *map(bool, KEYS[2:])]


def test_an_entry_last_used_over_an_hour_ago_is_touched(root: StoreRoot) -> None:
    old = time.time_ns() - HOUR_NS - 10**9
    os.utime(root.path / root.layout.path_of(KEYS[0]), ns=(old, old))
    now = time.time_ns()
    use, _, touched = counting(root, {**dict.fromkeys(KEYS, now), KEYS[0]: old})
    for _ in range(2):
        assert all(use.are_there(KEYS))
    assert touched == [KEYS[0]] * 2


def test_a_shard_that_changed_just_now_is_not_read_as_a_whole(root: StoreRoot) -> None:
    """Its mtime may stay the same when it changes again."""
    later = time.time() + 3600  # however slow this test is
    os.utime(root.path / "ab", (later, later))
    use, uses, _ = counting(root, dict.fromkeys(KEYS, time.time_ns()))
    for _ in range(2):
        assert all(use.are_there(KEYS))
        assert len(uses.marked) == len(KEYS)
        uses.marked.clear()


def test_a_shard_that_became_a_link_holds_nothing(root: StoreRoot, tmp_path: Path) -> None:
    use, _, _ = counting(root, dict.fromkeys(KEYS, time.time_ns()))
    use.are_there(KEYS)
    shard = root.path / "ab"
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    fresh, _, _ = counting(root, dict.fromkeys(KEYS, time.time_ns()))
    assert not any(fresh.are_there(KEYS))


def test_an_index_with_keys_of_another_store_costs_a_look_at_each_entry(root: StoreRoot) -> None:
    use, uses, _ = counting(root, dict.fromkeys([*KEYS, "request 7"], time.time_ns()))
    for _ in range(2):
        assert use.are_there([*KEYS, "ab" + "1" * 62]) == [*map(bool, KEYS), False]
        assert len(uses.marked) == len(KEYS)
        uses.marked.clear()
