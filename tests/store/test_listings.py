from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.store.care import make_store
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

    def used_within(self, shard: str, begin_ns: int, end_ns: int) -> Sequence[str]:
        assert shard == "ab"
        return [key for key, used_ns in self.used_ns.items() if begin_ns <= used_ns <= end_ns]

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


def test_what_is_removed_after_its_shard_was_read_is_missed_at_once(root: StoreRoot) -> None:
    use, _, _ = counting(root, dict.fromkeys(KEYS, time.time_ns()))
    use.are_there(KEYS)
    (root.path / root.layout.path_of(KEYS[3])).unlink()
    assert use.are_there(KEYS) == [key != KEYS[3] for key in KEYS]


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
