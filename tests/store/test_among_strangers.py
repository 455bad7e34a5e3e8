"""A store in a directory such as ``/tmp``: what is a stranger's is never ours, nor touched."""

from __future__ import annotations

import os
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.targets.ec_files import FILE, OTHER_UID, digest_id, look, put, snapshot
from vcache_cli.errors import RefusedError
from vcache_cli.store.files import OsFiles
from vcache_cli.store.handles import Handles
from vcache_cli.store.index import open_index
from vcache_cli.store.meta import FORMAT, StoreMeta, StoreRoot
from vcache_cli.store.owners import is_planted, owners_of
from vcache_cli.store.prune import PruneScope, plan_prune
from vcache_cli.store.query import list_entries
from vcache_cli.store.recognise import looks_like
from vcache_cli.store.scan import scan_store
from vcache_cli.store.stats import store_stats
from vcache_cli.store.verify import VerifyOptions, verify_store
from vcache_cli.targets import NativeLayout, OmlxLayout, VllmEcLayout

DAY = 86_400.0
EVERYTHING = PruneScope(older_than_seconds=0)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory that everyone may write to, with the sticky bit, as ``/tmp`` is."""
    path = tmp_path / "shared"
    path.mkdir()
    path.chmod(0o1777)
    return path


def opened(path: Path) -> StoreRoot:
    return StoreRoot(path, VllmEcLayout(), StoreMeta(FORMAT, "", "vllm-ec"))


def give_away(path: Path) -> None:
    os.chown(path, OTHER_UID, OTHER_UID, follow_symlinks=False)


def keys(path: Path) -> list[str]:
    return [row.key for row in list_entries(opened(path)).entries]


# --- what counts ---------------------------------------------------------------------------------


def test_a_directory_without_an_entry_is_one_stranger_and_is_not_looked_into(shared: Path) -> None:
    put(shared, "id")
    deep = shared / "project" / "a" / "b"
    deep.mkdir(parents=True)
    for number in range(5):
        (shared / "project" / f"{number}.txt").write_text("x")
    put(deep, "nested")
    put(shared, "with/slash")
    scan = scan_store(opened(shared))
    assert [file.key for file in scan.entries] == ["id"]
    assert [file.path for file in scan.foreign] == ["project", "with"]
    assert [each.path for each in scan.directories] == ["", "id", "project", "with"]


def test_what_lies_beside_an_entry_is_foreign_each_for_itself(shared: Path) -> None:
    folder = put(shared, "id").parent
    (folder / "notes").write_text("x")
    put(folder, "inner")
    (shared / "loose.safetensors").write_text("x")
    scan = scan_store(opened(shared))
    assert [file.path for file in scan.foreign] == ["id/inner", "id/notes", "loose.safetensors"]
    assert [file.key for file in scan.entries] == ["id"]


def test_links_are_never_entries_and_never_followed(shared: Path, tmp_path: Path) -> None:
    outside = put(tmp_path / "outside", "id")
    (shared / "to-folder").symlink_to(outside.parent)
    (look(shared, "to-file") / FILE).symlink_to(outside)
    (look(shared, "to-nothing") / FILE).symlink_to("nowhere")
    assert keys(shared) == []
    assert not looks_like(shared, VllmEcLayout())
    report = verify_store(opened(shared), VerifyOptions(repair=True))
    assert {problem.kind for problem in report.problems} == {"foreign_file"}
    assert report.damage == ()
    assert (shared / "to-file" / FILE).is_symlink()


@pytest.mark.parametrize("kind", ["fifo", "directory", "socket"])
def test_what_is_no_file_in_an_entrys_place_stops_nothing(kind: str, shared: Path) -> None:
    import socket

    put(shared, "sound")
    place = look(shared, "odd") / FILE
    held = None
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "directory":
        place.mkdir()
    else:
        held = socket.socket(socket.AF_UNIX)
        os.chdir(place.parent)  # the name of a socket may not be long
        held.bind(FILE)
        os.chdir("/")
    assert keys(shared) == ["sound"]
    assert [file.path for file in scan_store(opened(shared)).foreign] == [f"odd/{FILE}"]
    if held:
        held.close()


@needs_root
def test_only_our_own_files_in_our_own_directories_count(shared: Path) -> None:
    put(shared, "ours")
    give_away(put(shared, "their-file"))
    give_away(put(shared, "their-directory").parent)
    theirs = put(shared, "all-theirs")
    give_away(theirs)
    give_away(theirs.parent)
    before = snapshot(shared)
    scan = scan_store(opened(shared))
    assert [file.key for file in scan.entries] == ["ours"]
    assert [file.path for file in scan.foreign] == [
        "all-theirs",
        "their-directory",
        f"their-file/{FILE}",
    ]
    assert keys(shared) == ["ours"]
    assert store_stats(opened(shared)).entries == 1
    assert snapshot(shared) == before


@needs_root
def test_to_root_the_owner_of_the_store_is_one_of_us(tmp_path: Path) -> None:
    path = put(tmp_path / "store", "id")
    for each in (path, path.parent, tmp_path / "store"):
        give_away(each)
    assert owners_of(tmp_path / "store") == {0, OTHER_UID}
    assert keys(tmp_path / "store") == ["id"]
    assert looks_like(tmp_path / "store", VllmEcLayout())


# --- telling such a store ------------------------------------------------------------------------


@needs_root
def test_only_an_entry_of_ours_makes_a_store(shared: Path) -> None:
    give_away(put(shared, "theirs"))
    assert not looks_like(shared, VllmEcLayout())
    put(shared, "ours")
    assert looks_like(shared, VllmEcLayout())
    assert not looks_like(shared, OmlxLayout())
    assert not looks_like(shared, NativeLayout())


def counted(name: str, call: Callable[..., Any], calls: Counter[str]) -> Callable[..., Any]:
    def counting(*args: Any, **more: Any) -> Any:  # noqa: ANN401  as the call
        calls[name] += 1
        return call(*args, **more)

    return counting


@pytest.mark.slow
def test_twenty_thousand_strangers_are_told_quickly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names alone, and one lstat for each directory: a look at `/tmp` takes no minutes."""
    for number in range(19_600):
        os.mknod(tmp_path / f"stranger-{number:06d}")
    for number in range(400):
        (tmp_path / f"folder-{number:06d}").mkdir()
    put(tmp_path, "zzz")
    calls = Counter[str]()
    for name in ("lstat", "stat", "open", "scandir", "listdir"):
        monkeypatch.setattr(os, name, counted(name, getattr(os, name), calls))
    assert looks_like(tmp_path, VllmEcLayout())
    (tmp_path / "zzz" / FILE).unlink()
    assert not looks_like(tmp_path, VllmEcLayout())
    assert calls.pop("scandir") == 2
    assert calls.pop("lstat") < 2 * 410
    assert calls.total() < 20


# --- what strangers plant ------------------------------------------------------------------------


@needs_root
def test_a_strangers_own_vcache_directory_is_not_believed(shared: Path) -> None:
    """An index forged by someone else could say which of our entries are to go."""
    put(shared, "id", age=DAY)
    (shared / ".vcache" / "locks").mkdir(parents=True)
    (shared / ".vcache" / "index.sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 100)
    (shared / ".vcache" / "tmp").mkdir()
    (shared / ".vcache" / "tmp" / "old").write_text("x")
    os.utime(shared / ".vcache" / "tmp" / "old", (1, 1))
    give_away(shared / ".vcache")
    before = snapshot(shared)
    assert is_planted(shared)
    with open_index(opened(shared), mode="w") as index:
        assert index.state == "memory"
    plan = plan_prune(opened(shared), EVERYTHING)
    assert [each.key for each in plan.doomed] == ["id"]
    assert ".vcache" in [file.path for file in scan_store(opened(shared)).foreign]
    with pytest.raises(RefusedError, match="another user's"):
        plan.execute()
    with pytest.raises(RefusedError):
        verify_store(opened(shared), VerifyOptions(repair=True))
    assert snapshot(shared) == before


def test_a_link_in_place_of_our_own_directory_is_not_followed(shared: Path, tmp_path: Path) -> None:
    put(shared, "id", age=DAY)
    (tmp_path / "elsewhere" / "quarantine").mkdir(parents=True)
    (shared / ".vcache").symlink_to(tmp_path / "elsewhere")
    assert is_planted(shared)
    with pytest.raises(RefusedError):
        plan_prune(opened(shared), EVERYTHING).execute()
    assert os.listdir(tmp_path / "elsewhere") == ["quarantine"]


# --- empty directories ---------------------------------------------------------------------------


def test_empty_directories_are_counted_and_go_when_a_day_old(shared: Path) -> None:
    put(shared, "id")
    look(shared, digest_id(1), age=DAY + 60)
    look(shared, digest_id(2), age=DAY - 60)
    look(shared, digest_id(3))
    root = opened(shared)
    assert store_stats(root).empty_directories == 3
    assert verify_store(root).empty_directories == 3
    plan = plan_prune(root, PruneScope(max_size_bytes=10**9))
    assert [(each.key, each.reason) for each in plan.doomed] == [(digest_id(1), "empty")]
    document = plan.execute().as_json()
    assert (document["removed"], document["removed_bytes"]) == (1, 0)
    assert document["after"] == document["before"]
    assert not (shared / digest_id(1)).exists()
    assert store_stats(root).empty_directories == 2


def test_where_everyone_writes_an_empty_directory_needs_a_telling_name(shared: Path) -> None:
    """It may be the place of a mount or of a socket that is yet to come."""
    look(shared, "systemd-private-1", age=9 * DAY)
    look(shared, digest_id(1), age=9 * DAY)
    scope = PruneScope(max_size_bytes=0)
    assert [each.key for each in plan_prune(opened(shared), scope).doomed] == [digest_id(1)]
    shared.chmod(0o755)
    doomed = plan_prune(opened(shared), scope).doomed
    assert {each.key for each in doomed} == {digest_id(1), "systemd-private-1"}


def test_a_directory_that_was_used_since_the_plan_stays(shared: Path) -> None:
    look(shared, digest_id(1), age=2 * DAY)
    look(shared, digest_id(2), age=2 * DAY)
    look(shared, digest_id(3), age=2 * DAY)
    plan = plan_prune(opened(shared), PruneScope(max_size_bytes=10**9))
    put(shared, digest_id(1))
    os.utime(shared / digest_id(2))
    facts = (shared / digest_id(3)).stat()
    put(shared, digest_id(3))
    os.utime(shared / digest_id(3), ns=(facts.st_atime_ns, facts.st_mtime_ns))  # not the age alone
    result = plan.execute()
    assert (result.removed, result.kept, result.failed) == ((), 3, ())
    assert (shared / digest_id(1) / FILE).exists()
    assert (shared / digest_id(3) / FILE).exists()


def test_an_entrys_directory_goes_with_it_when_a_day_old_and_empty(shared: Path) -> None:
    put(shared, "old", age=2 * DAY)
    put(shared, "young", age=3600)
    kept = put(shared, "old-with-notes", age=2 * DAY).parent
    (kept / "notes").write_text("x")
    os.utime(kept, (1, 1))
    assert len(plan_prune(opened(shared), EVERYTHING).execute().removed) == 3
    assert not (shared / "old").exists()
    assert os.listdir(shared / "young") == []
    assert os.listdir(kept) == ["notes"]


def test_a_server_that_may_be_writing_is_given_its_grace(shared: Path) -> None:
    put(shared, "just-written")
    put(shared, "older", age=1200)
    plan = plan_prune(opened(shared), EVERYTHING)
    assert [each.key for each in plan.doomed] == ["older"]
    assert plan.skipped_grace == 1


# --- the deed ------------------------------------------------------------------------------------


def test_a_plan_of_nothing_touches_nothing(shared: Path) -> None:
    put(shared, "id")
    before = snapshot(shared)
    result = plan_prune(opened(shared), PruneScope(max_size_bytes=10**9)).execute()
    assert result.as_json()["removed"] == 0
    assert snapshot(shared) == before


def test_what_is_removed_leaves_a_description_and_no_tag_for_strangers(shared: Path) -> None:
    put(shared, "id", age=DAY)
    plan_prune(opened(shared), EVERYTHING).execute()
    assert (shared / ".vcache" / "store.json").exists()
    assert not (shared / "CACHEDIR.TAG").exists()


def test_a_directory_swapped_for_a_link_loses_nothing_outside(shared: Path, tmp_path: Path) -> None:
    ours = put(shared, "id", age=DAY)
    plan = plan_prune(opened(shared), EVERYTHING)
    victim = tmp_path / "victim"
    ours.parent.rename(victim)  # the very inode and mtime that were doomed, reached by a link
    (shared / "id").symlink_to(victim)
    result = plan.execute()
    assert (result.removed, result.kept, result.failed) == ((), 1, ())
    assert (victim / FILE).exists()


@needs_root
def test_what_was_given_away_since_the_plan_stays(shared: Path) -> None:
    give_away_file, given_folder = put(shared, "a", age=DAY), put(shared, "b", age=DAY)
    plan = plan_prune(opened(shared), EVERYTHING)
    give_away(give_away_file)
    give_away(given_folder.parent)
    assert plan.execute().kept == 2
    assert give_away_file.exists()
    assert given_folder.exists()


@pytest.fixture
def swapping(shared: Path, tmp_path: Path) -> Iterator[Path]:
    """A thread that swaps each entry's directory for a link to victims of the same names."""
    victims = tmp_path / "victims"
    for number in range(100):
        facts = put(shared, f"id-{number}", age=DAY).stat()
        twin = victims / f"id-{number}" / FILE
        twin.parent.mkdir(parents=True)
        os.link(shared / f"id-{number}" / FILE, twin)  # inode and mtime are those of the plan
        assert twin.stat().st_ino == facts.st_ino
    ended = threading.Event()

    def swap() -> None:
        while not ended.is_set():
            for number in range(100):
                place, aside = shared / f"id-{number}", tmp_path / f"aside-{number}"
                try:
                    place.rename(aside)
                    place.symlink_to(victims / f"id-{number}")
                    place.unlink()
                    aside.rename(place)
                except OSError:  # it is gone by now
                    continue

    thread = threading.Thread(target=swap)
    thread.start()
    yield victims
    ended.set()
    thread.join()


def test_a_race_with_someone_who_swaps_directories_loses_nothing_outside(
    swapping: Path, shared: Path
) -> None:
    for _ in range(20):
        plan_prune(opened(shared), EVERYTHING).execute()
    assert len(list(swapping.glob(f"*/{FILE}"))) == 100


def test_handles_leave_no_descriptor_open(shared: Path, tmp_path: Path) -> None:
    for number in range(20):
        put(shared, f"id-{number}")
    (shared / "link").symlink_to(tmp_path)
    before = len(os.listdir("/dev/fd"))
    with Handles(OsFiles(), shared) as handles:
        for number in range(20):
            assert stat.S_ISREG(handles.stat(f"id-{number}/{FILE}").st_mode)
            for path in (f"no-{number}/{FILE}", f"id-0/{FILE}/below", "link/x", "id-1/no/x"):
                with pytest.raises(OSError, match=r"Errno"):
                    handles.stat(path)
        assert len(os.listdir("/dev/fd")) <= before + 2
    assert len(os.listdir("/dev/fd")) == before


def test_damage_of_ours_is_moved_to_quarantine(shared: Path) -> None:
    put(shared, "bad", b"no header", age=DAY)
    put(shared, "good", age=DAY)
    report = verify_store(opened(shared), VerifyOptions(repair=True))
    assert [(each.key, each.action) for each in report.damage] == [("bad", "quarantined")]
    assert os.listdir(shared / "bad") == []
    assert len(os.listdir(shared / ".vcache" / "quarantine")) == 1
    assert keys(shared) == ["good"]
