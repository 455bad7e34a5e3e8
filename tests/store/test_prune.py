from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import ON_DISK
from tests.store.care import DAY, NOW, add, entry, make_store
from vcache_cli.errors import AccessError, LockBusyError, UsageError
from vcache_cli.items import MediaItem, Stage
from vcache_cli.outcome import Outcome, Status
from vcache_cli.store.files import OsFiles
from vcache_cli.store.index import open_index
from vcache_cli.store.locks import gc_lock, write_lock
from vcache_cli.store.meta import StoreRoot
from vcache_cli.store.prune import PruneScope, plan_prune
from vcache_cli.store.query import list_entries
from vcache_cli.store.runs import RunLog
from vcache_cli.store.scan import scan_store
from vcache_cli.store.stats import store_stats


class Files(OsFiles):
    """Refuses to unlink, for some or all."""

    def __init__(self, code: int, name: str = "") -> None:
        self.code, self.name = code, name

    def unlink_at(self, name: str, directory: int) -> None:  # type: ignore[override]
        if self.name in name:
            raise OSError(self.code, os.strerror(self.code), name)
        os.unlink(name, dir_fd=directory)


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    return make_store(tmp_path / "store")


def fill(root: StoreRoot, count: int = 10) -> list[Path]:
    """Entries, the first of them the oldest and the longest unused."""
    return [
        add(
            root,
            entry(number, model="ab"[number % 2], created=NOW - (count - number) * DAY),
            used=NOW - (count - number) * 3600,
        )
        for number in range(count)
    ]


def names(root: StoreRoot) -> set[str]:
    return {file.path for file in scan_store(root).entries}


def test_half_of_the_store_goes_oldest_use_first(root: StoreRoot) -> None:
    paths = fill(root)
    size = paths[0].stat().st_size
    plan = plan_prune(root, PruneScope(max_size_bytes=5 * size), now=NOW)
    assert [each.key for each in plan.doomed] == [path.stem for path in paths[:5]]
    assert {each.reason for each in plan.doomed} == {"size"}
    assert len(names(root)) == 10
    result = plan.execute()
    assert names(root) == {f"{path.parent.name}/{path.name}" for path in paths[5:]}
    assert result.as_json()["before"] == {"entries": 10, "bytes": 10 * size}
    assert result.as_json()["after"] == {"entries": 5, "bytes": 5 * size}
    assert plan.as_json()["after"] == result.as_json()["after"]
    assert result.removed_bytes == 5 * size


def test_everything_older_than_nothing_goes_and_all_views_agree(root: StoreRoot) -> None:
    fill(root)
    add(root, entry(99, created=NOW + 5 * DAY), used=NOW + 5 * DAY)
    plan = plan_prune(root, PruneScope(older_than_seconds=0), now=NOW)
    assert len(plan.doomed) == 11
    plan.execute()
    assert names(root) == set()
    assert list_entries(root).entries == ()
    stats = store_stats(root, scan=True)
    assert (stats.entries, stats.drift_entries, stats.bytes.logical) == (0, 0, 0)


def test_the_deed_is_the_plan_whatever_the_scope(root: StoreRoot) -> None:
    scope = PruneScope(max_size_bytes=3000, older_than_seconds=8 * DAY, model="a")
    fill(root)
    before = names(root)
    plan = plan_prune(root, scope, now=NOW)
    again = plan_prune(root, scope, now=NOW)
    assert plan == again
    result = plan.execute()
    assert result.removed == plan.doomed
    assert before - names(root) == {root.layout.path_of(each.key) for each in plan.doomed}


@dataclass(frozen=True)
class Fact:
    """What a test knows of an entry that it made."""

    created_days: int
    used_days: int
    model: str
    bytes: int = 0

    def is_selected(self, scope: PruneScope) -> bool:
        return scope.model in {None, self.model}

    def is_named(self, scope: PruneScope) -> bool:
        """True where it goes whatever the store's size is."""
        ages = (
            (scope.older_than_seconds, self.created_days),
            (scope.unused_for_seconds, self.used_days),
        )
        old = any(limit is not None and days * DAY >= limit for limit, days in ages)
        return self.is_selected(scope) and (old or not scope.has_policy)


def make_facts(root: StoreRoot, ages: list[tuple[int, int, int]]) -> dict[str, Fact]:
    facts = {}
    for number, (created, used, tokens) in enumerate(ages):
        model = "ab"[number % 2]
        made = entry(number, model=model, tokens=tokens, created=NOW - created * DAY)
        path = add(root, made, used=NOW - used * DAY)
        facts[made.key] = Fact(created, used, model, path.stat().st_size)
    return facts


DAYS = st.integers(0, 30)
AGES = st.one_of(st.none(), DAYS.map(lambda days: days * DAY))
SCOPES = st.builds(
    PruneScope,
    max_size_bytes=st.one_of(st.none(), st.integers(0, 15_000)),
    older_than_seconds=AGES,
    unused_for_seconds=AGES,
    model=st.one_of(st.none(), st.sampled_from("ab")),
).filter(lambda scope: not scope.is_empty)


@ON_DISK
@given(st.lists(st.tuples(DAYS, DAYS, st.integers(0, 8)), max_size=12), SCOPES)
def test_what_stays_is_what_the_scope_says(
    ages: list[tuple[int, int, int]], scope: PruneScope
) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        root = make_store(folder / "store")
        facts = make_facts(root, ages)
        plan = plan_prune(root, scope, now=NOW)
        plan.execute()
        left = {row.key for row in list_entries(root).entries}
    finally:
        shutil.rmtree(folder)
    gone = facts.keys() - left
    assert {each.key for each in plan.doomed} == gone
    named = {key for key, fact in facts.items() if fact.is_named(scope)}
    assert named <= gone
    assert all(facts[key].is_selected(scope) for key in gone)
    if scope.max_size_bytes is None:
        assert gone == named
        return
    selected = [facts[key] for key in left if facts[key].is_selected(scope)]
    assert sum(facts[key].bytes for key in left) <= scope.max_size_bytes or not selected
    latest_gone = min((facts[key].used_days for key in gone - named), default=99)
    assert all(fact.used_days <= latest_gone for fact in selected)


def test_a_prune_without_a_scope_is_refused(root: StoreRoot) -> None:
    with pytest.raises(UsageError, match="nothing says what to remove"):
        plan_prune(root, PruneScope())


def test_entries_are_selected_by_model_stage_key_and_source(root: StoreRoot) -> None:
    paths = fill(root)
    pixels = entry(50, stage=Stage.PIXELS)
    add(root, pixels)
    sources = [entry(number).provenance.source_sha256 or "" for number in range(10)]

    def doomed(scope: PruneScope) -> set[str]:
        return {each.key for each in plan_prune(root, scope, now=NOW).doomed}

    keys = [path.stem for path in paths]
    assert doomed(PruneScope(model="b")) == set(keys[1::2])
    assert doomed(PruneScope(stage="pixels")) == {pixels.key}
    assert doomed(PruneScope(keys=frozenset(keys[:2]))) == set(keys[:2])
    assert doomed(PruneScope(sources_sha256=frozenset(sources[3:5]))) == set(keys[3:5])
    kept = PruneScope(keep_sources_sha256=frozenset(sources))
    assert doomed(kept) == {pixels.key}
    assert kept.as_json() == {"not_in": 10}
    assert doomed(PruneScope(model="b", unused_for_seconds=9 * 3600)) == {keys[1]}


def test_incompatible_files_go_when_asked_and_before_all_others(root: StoreRoot) -> None:
    paths = fill(root, 4)
    paths[3].chmod(0o644)
    paths[3].write_bytes(b"another format")
    plan = plan_prune(root, PruneScope(incompatible=True), now=NOW)
    assert [(each.key, each.reason) for each in plan.doomed] == [(paths[3].stem, "incompatible")]
    size = sum(path.stat().st_size for path in paths)
    plan = plan_prune(root, PruneScope(max_size_bytes=size - 1), now=NOW)
    assert [each.key for each in plan.doomed] == [paths[3].stem]


def test_a_use_that_the_index_did_not_see_counts(root: StoreRoot) -> None:
    paths = fill(root)
    for directory in {root.path, *(path.parent for path in paths)}:
        os.utime(directory, (NOW, NOW))
    with open_index(root, mode="w") as index:
        index.refresh()
    os.utime(paths[0], (NOW, NOW))
    os.utime(paths[1], (NOW - 4.5 * 3600, NOW - 4.5 * 3600))
    size = paths[0].stat().st_size
    plan = plan_prune(root, PruneScope(max_size_bytes=4 * size), now=NOW)
    order = [2, 3, 4, 5, 1, 6]
    assert [each.key for each in plan.doomed] == [paths[number].stem for number in order]
    idle = plan_prune(root, PruneScope(unused_for_seconds=8 * 3600), now=NOW)
    assert [each.key for each in idle.doomed] == [paths[2].stem]


def test_a_file_that_changed_since_the_plan_is_kept(root: StoreRoot) -> None:
    paths = fill(root, 4)
    plan = plan_prune(root, PruneScope(older_than_seconds=0), now=NOW)
    os.utime(paths[0], (NOW, NOW))
    add(root, entry(1, model="b"), used=NOW)
    paths[2].unlink()
    result = plan.execute()
    assert [each.key for each in result.removed] == [paths[3].stem]
    assert result.as_json()["skipped"]["kept"] == 3
    assert paths[0].exists()
    assert paths[1].exists()


def test_young_entries_are_left_only_while_someone_writes(root: StoreRoot) -> None:
    now = time.time()
    add(root, entry(1), used=now)
    add(root, entry(2), used=now - 700)
    everything = PruneScope(older_than_seconds=0)
    assert len(plan_prune(root, everything).doomed) == 2
    with write_lock(root):
        plan = plan_prune(root, everything)
        assert [each.key for each in plan.doomed] == [entry(2).key]
        assert plan.as_json()["skipped"]["grace"] == 1
        assert len(plan_prune(root, everything, grace_seconds=0).doomed) == 2


def test_what_a_live_run_has_met_is_left_to_it(root: StoreRoot) -> None:
    fill(root, 4)
    everything = PruneScope(older_than_seconds=0, max_size_bytes=0)
    with write_lock(root), RunLog(root) as log:
        met = entry(2, model="a").key
        log.append([Outcome(MediaItem("/a"), Status.PRESENT, key=met)])
        plan = plan_prune(root, everything, now=NOW)
        assert (len(plan.doomed), met in {each.key for each in plan.doomed}) == (3, False)
        assert plan.as_json()["skipped"] == {"grace": 0, "active_run": 1, "kept": 0}
    assert len(plan_prune(root, everything, now=NOW).doomed) == 4


def test_leftovers_go_with_any_scope_by_their_own_age(root: StoreRoot) -> None:
    own = root.path / ".vcache"
    for name, age in (("tmp/old", 3601), ("tmp/new", 10)):
        (own / name).write_bytes(b"12345")
        os.utime(own / name, (NOW - age, NOW - age))
    for stamp in ("20230101T000000Z", "20231114T000000Z"):
        (own / "quarantine" / f"{stamp}-checksum-1-a").write_bytes(b"123")
    plan = plan_prune(root, PruneScope(model="none"), now=NOW)
    assert [(each.reason, each.bytes) for each in plan.doomed] == [("temp", 5), ("quarantine", 3)]
    result = plan.execute()
    assert result.removed_bytes == 8
    assert result.as_json()["after"] == {"entries": 0, "bytes": 0}
    assert [path.name for path in (own / "tmp").iterdir()] == ["new"]


def test_failures_are_collected_and_counted_only_once_unlinked(root: StoreRoot) -> None:
    paths = fill(root, 5)
    plan = plan_prune(root, PruneScope(older_than_seconds=0), now=NOW)
    result = plan.execute(files=Files(errno.EACCES, paths[2].name))
    document = result.as_json()
    assert document["failed"] == [{"key": paths[2].stem, "message": "Permission denied"}]
    assert (document["removed"], document["after"]["entries"]) == (4, 1)
    assert document["removed_bytes"] == 4 * paths[2].stat().st_size
    assert [row.key for row in list_entries(root).entries] == [paths[2].stem]


def test_a_read_only_store_is_planned_for_and_not_pruned(root: StoreRoot) -> None:
    fill(root, 3)
    plan = plan_prune(root, PruneScope(older_than_seconds=0), now=NOW)
    with pytest.raises(AccessError, match="Read-only file system"):
        plan.execute(files=Files(errno.EROFS))
    assert len(names(root)) == 3


def test_two_prunes_do_not_run_at_once(root: StoreRoot) -> None:
    fill(root, 2)
    plan = plan_prune(root, PruneScope(older_than_seconds=0), now=NOW)
    with gc_lock(root), pytest.raises(LockBusyError):
        plan.execute()
    assert len(names(root)) == 2


def test_a_prune_needs_no_index(root: StoreRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk nothing can be written, and that is when a prune is needed."""
    fill(root, 6)
    monkeypatch.setattr("vcache_cli.store.index_schema.os.access", lambda *_: False)
    plan = plan_prune(root, PruneScope(max_size_bytes=0), now=NOW)
    assert len(plan.execute().removed) == 6
    assert names(root) == set()


@pytest.mark.parametrize("used", [2**34 - 1, 16_725_225_600])
def test_an_mtime_beyond_what_the_index_holds_stops_nothing(root: StoreRoot, used: int) -> None:
    paths = [add(root, entry(number), used=used) for number in range(2)]
    if os.lstat(paths[0]).st_mtime_ns < 2**63:
        pytest.skip("this file system does not hold such a time")
    os.utime(paths[0].parent, (used, used))
    with open_index(root, mode="w") as index:
        index.refresh()
        assert {row.used_ns for row in index.rows()} == {2**63 - 1}
    result = plan_prune(root, PruneScope(max_size_bytes=0), grace_seconds=0).execute()
    assert len(result.removed) == 2
    assert not any(path.exists() for path in paths)
