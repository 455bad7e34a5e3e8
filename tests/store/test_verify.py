from __future__ import annotations

import errno
import itertools
import os
import random
from pathlib import Path
from typing import Self

import pytest

from tests.store.care import DAY, NOW, add, entry, make_store
from vcache_cli.errors import AccessError, LockBusyError, UsageError
from vcache_cli.header import build_header
from vcache_cli.store.disk import DiskStore
from vcache_cli.store.index import open_index
from vcache_cli.store.locks import gc_lock
from vcache_cli.store.meta import StoreRoot
from vcache_cli.store.presence import Presence
from vcache_cli.store.prune import PruneScope, plan_prune
from vcache_cli.store.reader import EntryReader
from vcache_cli.store.scan import scan_store
from vcache_cli.store.stats import store_stats
from vcache_cli.store.verify import VerifyOptions, VerifyReport, verify_store

HEADER = VerifyOptions(level="header")
REPAIR = VerifyOptions(repair=True)


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    return make_store(tmp_path / "store")


def fill(root: StoreRoot, count: int = 20) -> list[Path]:
    return [add(root, entry(number)) for number in range(count)]


def rewrite(path: Path, data: bytes) -> None:
    """Change a published file in place, as nothing of ours does; its mtime stays."""
    facts = path.stat()
    path.chmod(0o644)
    path.write_bytes(data)
    path.chmod(0o444)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    rewrite(path, bytes(data))


def kinds(report: VerifyReport) -> dict[str, str]:
    return {problem.path: problem.kind for problem in report.problems}


@pytest.mark.parametrize("level", ["stat", "header", "data"])
def test_a_sound_store_has_no_problems(root: StoreRoot, level: object) -> None:
    paths = fill(root)
    options = {
        "stat": VerifyOptions(level="stat"),
        "header": HEADER,
        "data": VerifyOptions(),
    }[str(level)]
    times = [path.stat().st_mtime_ns for path in paths]
    report = verify_store(root, options)
    assert (report.checked, report.ok, report.problems) == (20, 20, ())
    assert (report.complete, report.cursor, report.structure_only) == (True, None, False)
    assert [path.stat().st_mtime_ns for path in paths] == times
    expected = {"stat": 0, "data": sum(path.stat().st_size for path in paths)}
    assert report.bytes_read == expected.get(str(level), report.bytes_read)


@pytest.mark.parametrize("seed", range(3))
def test_twenty_flipped_bits_are_twenty_findings_and_are_repaired(
    root: StoreRoot, seed: int
) -> None:
    """Anywhere in the file: length, header, checksum, padding, data."""
    paths = fill(root, 25)
    chance = random.Random(seed)
    for path in paths[:20]:
        flip(path, chance.randrange(8 * path.stat().st_size))
    report = verify_store(root)
    assert len(report.damage_left) == 20
    assert {problem.key for problem in report.damage} == {path.stem for path in paths[:20]}
    assert report.ok == 5
    assert all(DiskStore(root).get(path.stem) is None for path in paths[:20])
    repaired = verify_store(root, REPAIR, now=NOW)
    assert (len(repaired.damage), repaired.damage_left) == (20, ())
    assert {problem.action for problem in repaired.problems} == {"quarantined"}
    assert verify_store(root).problems == ()
    assert len(scan_store(root).own.quarantine) == 20
    stats = store_stats(root, scan=True)
    assert (stats.entries, stats.drift_entries) == (5, 0)
    assert stats.bytes.quarantine > 0


def test_every_bit_of_a_file_counts(root: StoreRoot) -> None:
    path = add(root, entry(1, tokens=1))
    data = path.read_bytes()
    for bit in range(0, 8 * len(data), 43):
        flip(path, bit)
        assert len(verify_store(root, VerifyOptions(threads=1)).damage_left) == 1, bit
        rewrite(path, data)


def test_each_kind_of_damage_has_its_name(root: StoreRoot) -> None:
    paths = fill(root, 6)
    data = paths[0].read_bytes()
    rewrite(paths[0], data[:-1])
    rewrite(paths[1], b"")
    flip(paths[2], 8 * (len(data) - 1))
    rewrite(paths[3], paths[4].read_bytes())
    paths[5].unlink()
    paths[5].symlink_to(paths[4])
    report = verify_store(root)
    assert [kinds(report)[str(path.relative_to(root.path))] for path in [*paths[:4], paths[5]]] == [
        "header",
        "header",
        "checksum",
        "key_mismatch",
        "symlink",
    ]
    repaired = verify_store(root, REPAIR)
    assert repaired.damage_left == ()
    assert paths[4].exists()
    assert not paths[5].is_symlink()


def test_a_link_in_place_of_a_shard_is_damage_and_is_not_followed(
    root: StoreRoot, tmp_path: Path
) -> None:
    paths = fill(root, 3)
    key, shard, outside = paths[0].stem, paths[0].parent, tmp_path / "outside"
    assert store_stats(root, now=NOW).entries == 3
    shard.rename(outside)
    shard.symlink_to(outside)
    store = DiskStore(root)
    assert store.get(key) is None
    assert [found.kind for found in store.findings] == ["symlink"]
    assert (store.contains(key), Presence(root)(key)) == (False, False)
    store.touch(key)
    assert store_stats(root, now=NOW).entries == 2
    plan_prune(root, PruneScope(older_than_seconds=0), now=NOW).execute()
    assert (outside / paths[0].name).stat().st_mtime == NOW - DAY
    report = verify_store(root)
    assert kinds(report) == {shard.name: "symlink"}
    assert report.damage_left == report.problems
    assert verify_store(root, REPAIR).damage_left == ()
    assert (outside / paths[0].name).exists()
    assert not shard.is_symlink()
    add(root, entry(0))
    assert store.get(key) is not None
    assert verify_store(root).problems == ()


def test_the_stat_level_sees_a_file_that_changed_its_size_in_place(root: StoreRoot) -> None:
    paths = fill(root, 3)
    for directory in {root.path, *(path.parent for path in paths)}:
        os.utime(directory, (NOW, NOW))
    store_stats(root)
    rewrite(paths[0], paths[0].read_bytes()[:-10])
    report = verify_store(root, VerifyOptions(level="stat"))
    assert kinds(report) == {str(paths[0].relative_to(root.path)): "size"}
    assert report.damage_left[0].as_json()["action"] == "none"


def test_the_header_level_does_not_see_the_data(root: StoreRoot) -> None:
    path = fill(root, 1)[0]
    flip(path, 8 * (path.stat().st_size - 1))
    assert verify_store(root, HEADER).problems == ()
    assert len(verify_store(root).damage) == 1


def test_a_dtype_that_is_not_the_recipes_is_found(root: StoreRoot) -> None:
    made = entry(1, recipe={"encoder": {"stored_dtype": "F32"}})
    add(root, made)
    for options in (HEADER, VerifyOptions()):
        (problem,) = verify_store(root, options).problems
        assert (problem.kind, problem.expected, problem.actual) == (
            "dtype",
            "features F32",
            "features BF16",
        )


def test_the_reference_reader_has_a_second_opinion(
    root: StoreRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(root, 1)
    data = build_header({}, {"features": ("BF16", (4, 8))}) + bytes(64)

    class Opened:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def read(self) -> bytes:
            return data

    monkeypatch.setattr("vcache_cli.store.second_opinion.open", lambda *_: Opened(), raising=False)
    (problem,) = verify_store(root).problems
    assert problem.actual == "safetensors finds other bytes in features"
    data = data[:-1]
    (problem,) = verify_store(root).problems
    assert "safetensors refuses it" in (problem.actual or "")


def test_foreign_files_are_told_and_are_no_damage(root: StoreRoot) -> None:
    path = fill(root, 1)[0]
    (root.path / "notes.txt").write_text("mine")
    (root.path / "link").symlink_to("/etc")
    os.mkfifo(path.parent / f"{path.parent.name}{'0' * 62}.safetensors")
    path.chmod(0o666)
    report = verify_store(root, REPAIR)
    assert sorted(kinds(report).values()) == ["foreign_file"] * 3 + ["mode"]
    assert report.damage == ()
    assert report.ok == 1
    assert (root.path / "notes.txt").exists()


def test_what_cannot_be_read_is_damage_but_stays_where_it_is(
    root: StoreRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = fill(root, 2)

    def refuse(*_: object) -> object:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(EntryReader, "read", refuse)
    report = verify_store(root, REPAIR)
    assert [problem.kind for problem in report.damage_left] == ["io_error"] * 2
    assert all(path.exists() for path in paths)


def test_a_file_that_vanishes_meanwhile_is_no_problem(
    root: StoreRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(root, 3)

    def vanish(*_: object) -> object:
        raise FileNotFoundError(errno.ENOENT, "gone")

    monkeypatch.setattr(EntryReader, "read", vanish)
    report = verify_store(root)
    assert (report.checked, report.problems, report.complete) == (0, (), True)


def test_a_wrong_index_is_told_and_corrected(root: StoreRoot) -> None:
    paths = fill(root, 4)
    for directory in {root.path, *(path.parent for path in paths)}:
        os.utime(directory, (NOW, NOW))
    with open_index(root, mode="w") as index:
        index.refresh()
        row = next(index.rows())
        index.remove(row.key)
    add(root, entry(9))
    ghost = root.path / root.layout.path_of(entry(9).key)
    with open_index(root, mode="w") as index:
        index.refresh()
    ghost.unlink()
    for directory in {root.path, ghost.parent}:
        os.utime(directory, (NOW, NOW))
    with open_index(root, mode="w") as index:
        index.query("UPDATE directories SET mtime_ns = ?", (int(NOW) * 10**9,), types=())
        for directory in {root.path, *root.path.glob("??")}:  # as no tool can set it back
            name = b"" if directory == root.path else os.fsencode(directory.name)
            changed = (os.stat(directory).st_ctime_ns, name)
            index.query("UPDATE directories SET changed_ns = ? WHERE path = ?", changed, types=())
    found = kinds(verify_store(root, HEADER))
    assert found == {row.path: "index_missing", root.layout.path_of(entry(9).key): "index_extra"}
    assert verify_store(root, HEADER).problems == ()


def test_a_subset_is_decided_by_key_and_seed(root: StoreRoot) -> None:
    fill(root, 60)
    half = VerifyOptions(level="stat", subset=0.5)
    checked = verify_store(root, half).checked
    assert checked == verify_store(root, half).checked
    assert 10 < checked < 50
    other = verify_store(root, VerifyOptions(level="stat", subset=0.5, seed=1)).checked
    assert 10 < other < 50


def test_a_verify_that_runs_out_of_time_goes_on_next_time(root: StoreRoot) -> None:
    fill(root, 10)
    rounds: list[tuple[int, bool]] = []
    while len(rounds) < 5:
        ticks = itertools.count().__next__
        report = verify_store(root, VerifyOptions(max_duration_seconds=4), clock=ticks)
        rounds.append((report.checked, report.complete))
        if report.complete:
            break
    assert rounds == [(4, False), (4, False), (2, True)]
    assert report.cursor is None
    assert verify_store(root).checked == 10
    paths = [file.path for file in scan_store(root).entries]
    assert verify_store(root, VerifyOptions(cursor=paths[6])).checked == 3


def test_progress_is_told(root: StoreRoot) -> None:
    fill(root, 3)
    told: list[tuple[int, int]] = []
    verify_store(root, on_progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_a_read_only_store_is_verified_and_not_repaired(
    root: StoreRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fill(root, 3)[0]
    flip(path, 8 * (path.stat().st_size - 1))
    monkeypatch.setattr("vcache_cli.store.index_schema.os.access", lambda *_: False)
    assert len(verify_store(root).damage_left) == 1

    def refuse(*_: object) -> object:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("vcache_cli.store.locks._open_lock", refuse)
    with pytest.raises(AccessError):
        verify_store(root, REPAIR)


def test_a_repair_waits_for_no_prune(root: StoreRoot) -> None:
    with gc_lock(root), pytest.raises(LockBusyError):
        verify_store(root, REPAIR)


def test_quarantine_has_its_own_age(root: StoreRoot) -> None:
    flip(fill(root, 2)[0], 100)
    verify_store(root, REPAIR, now=NOW)
    (file,) = scan_store(root).own.quarantine
    assert file.path.startswith(".vcache/quarantine/20231114T221320Z-header-")
    nothing = PruneScope(model="none")
    assert plan_prune(root, nothing, now=NOW + 29 * DAY).doomed == ()
    assert len(plan_prune(root, nothing, now=NOW + 30 * DAY).doomed) == 1


@pytest.mark.parametrize("values", [{"subset": 0.0}, {"subset": 1.1}, {"threads": 0}])
def test_impossible_options_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        VerifyOptions(**values)  # type: ignore[arg-type]


def test_the_document_lists_damage_first(root: StoreRoot) -> None:
    path = fill(root, 1)[0]
    flip(path, 8 * (path.stat().st_size - 1))
    for number in range(1100):
        (root.path / f"foreign {number}").touch()
    document = verify_store(root).as_json()
    assert document["problems"][0]["kind"] == "checksum"
    assert (len(document["problems"]), document["problems_omitted"]) == (1000, 101)
