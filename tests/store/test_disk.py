"""A store as a tier: absent, odd and half-known are misses, and never an exception."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.store.care import entry, make_store
from vcache_cli.errors import RefusedError, UsageError
from vcache_cli.store import DiskStore, OsFiles, StoreRoot

HOUR = 3600.0


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    """A store with entry 1."""
    root = make_store(tmp_path / "store")
    with DiskStore(root, mode="w") as store:
        store.put(entry(1))
    return root


@pytest.mark.parametrize("key", [None, 7, b"..", b"0" * 64, "x" * 5_000], ids=str)
def test_what_is_no_key_misses_and_is_found_in_short(root: StoreRoot, key: Any) -> None:  # noqa: ANN401  what a caller may get wrong
    store = DiskStore(root)
    assert store.get(key) is None
    assert not store.contains(key)
    store.touch(key)
    assert [(found.kind, len(found.key) <= 80) for found in store.findings] == [("key", True)]


def path_of(root: StoreRoot, number: int) -> Path:
    """Where an entry lies."""
    return root.path / root.layout.path_of(entry(number).key)


def kinds(store: DiskStore) -> list[str]:
    """What was found."""
    return [found.kind for found in store.findings]


class Failing(OsFiles):
    """Cannot open anything."""

    def __init__(self, error: int) -> None:
        self._error = error
        self.open = self._open  # type: ignore[assignment]

    def _open(self, path: str, flags: int, mode: int = 0) -> int:
        raise OSError(self._error, os.strerror(self._error), path)


# --- misses ----------------------------------------------------------------------------------


def test_an_absent_entry_is_a_miss_and_nothing_odd(root: StoreRoot) -> None:
    store = DiskStore(root)
    assert store.get(entry(2).key) is None
    assert not store.contains(entry(2).key)
    assert not store.findings


@pytest.mark.parametrize("error", [errno.ENOENT, errno.ESTALE, errno.ENOTDIR])
def test_an_entry_that_vanishes_is_a_plain_miss(root: StoreRoot, error: int) -> None:
    store = DiskStore(root, files=Failing(error))
    assert store.get(entry(1).key) is None
    assert not store.findings


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errno.EACCES, "mode"),
        (errno.EPERM, "mode"),
        (errno.EIO, "io_error"),
        (errno.EMFILE, "io_error"),
        (errno.ENOMEM, "io_error"),
        (errno.ELOOP, "symlink"),
    ],
)
def test_an_entry_that_cannot_be_opened_is_a_miss_and_a_finding(
    root: StoreRoot, error: int, kind: str
) -> None:
    store = DiskStore(root, files=Failing(error))
    assert store.get(entry(1).key) is None
    assert kinds(store) == [kind]
    assert store.findings[0].path == root.layout.path_of(entry(1).key)


def test_a_link_is_not_followed(root: StoreRoot) -> None:
    path_of(root, 2).parent.mkdir(exist_ok=True)
    path_of(root, 2).symlink_to(path_of(root, 1))
    store = DiskStore(root)
    assert store.get(entry(2).key) is None
    assert kinds(store) == ["symlink"]
    assert not store.contains(entry(2).key)


def test_a_pipe_in_the_place_of_an_entry_does_not_hang(root: StoreRoot) -> None:
    path_of(root, 2).parent.mkdir(exist_ok=True)
    os.mkfifo(path_of(root, 2))
    store = DiskStore(root)
    assert store.get(entry(2).key) is None
    assert kinds(store) == ["foreign_file"]


def test_a_directory_in_the_place_of_an_entry_is_a_miss(root: StoreRoot) -> None:
    path_of(root, 2).mkdir(parents=True)
    store = DiskStore(root)
    assert store.get(entry(2).key) is None
    assert kinds(store) == ["foreign_file"]
    assert store.stat(entry(2).key) is None


def test_the_entry_of_another_key_is_a_miss(root: StoreRoot) -> None:
    path_of(root, 2).parent.mkdir(exist_ok=True)
    path_of(root, 1).rename(path_of(root, 2))
    store = DiskStore(root)
    assert store.get(entry(2).key) is None
    assert kinds(store) == ["key_mismatch"]


def test_an_entry_that_does_not_fit_into_memory_is_a_miss(root: StoreRoot) -> None:
    class Small(OsFiles):
        def __init__(self) -> None:
            self.read = self._read

        def _read(self, fd: int, count: int) -> bytes:
            raise MemoryError

    store = DiskStore(root, files=Small())
    assert store.get(entry(1).key) is None
    assert kinds(store) == ["memory"]


def test_findings_do_not_grow_without_end(root: StoreRoot) -> None:
    store = DiskStore(root)
    for _ in range(1500):
        store.get("no key")
    assert len(store.findings) == 1000


def test_a_vanished_root_is_a_miss(root: StoreRoot) -> None:
    store = DiskStore(root)
    root.path.rename(root.path.with_name("moved"))
    assert store.get(entry(1).key) is None
    assert not store.contains(entry(1).key)


# --- writing ---------------------------------------------------------------------------------


def test_a_store_that_is_open_for_reading_is_not_written(root: StoreRoot) -> None:
    store = DiskStore(root)
    with pytest.raises(UsageError):
        store.put(entry(2))
    with pytest.raises(UsageError):
        store.writer()


def test_reading_changes_nothing_on_the_disk(root: StoreRoot) -> None:
    def state() -> list[tuple[str, int, int]]:
        return sorted(
            (str(path), path.lstat().st_mtime_ns, path.lstat().st_size)
            for path in root.path.rglob("*")
        )

    before = state()
    store = DiskStore(root)
    store.get(entry(1).key)
    store.get(entry(2).key)
    store.contains(entry(2).key)
    store.close()
    assert state() == before


def test_putting_again_repairs_a_damaged_entry(root: StoreRoot) -> None:
    path_of(root, 1).chmod(0o600)
    path_of(root, 1).write_bytes(b"damage")
    with DiskStore(root, mode="w") as store:
        assert store.get(entry(1).key) is None
        assert store.put(entry(1)) == path_of(root, 1).stat().st_size
        assert store.get(entry(1).key) is not None


def test_an_entry_that_is_replaced_or_deleted_stays_with_who_has_it(root: StoreRoot) -> None:
    with DiskStore(root, mode="w") as store:
        held = store.get(entry(1).key)
        store.put(entry(1))
        path_of(root, 1).unlink()
    assert held is not None
    assert held.tensors["features"].data == entry(1).tensors["features"].data


def write_often(root: StoreRoot) -> None:
    """Put entry 1 many times."""
    with DiskStore(root, mode="w") as store:
        for _ in range(20):
            store.put(entry(1))


def read_often(root: StoreRoot, stop: threading.Event, problems: list[object]) -> None:
    """Get entry 1 until told to stop."""
    store, wanted = DiskStore(root), entry(1).tensors["features"].data
    while not stop.is_set():
        found = store.get(entry(1).key)
        if found is None or found.tensors["features"].data != wanted:
            problems.append(list(store.findings))


def test_writers_of_one_key_never_tear_it(root: StoreRoot) -> None:
    """Readers see a whole entry at every moment."""
    stop, problems = threading.Event(), list[object]()
    readers = [threading.Thread(target=read_often, args=(root, stop, problems)) for _ in range(2)]
    writers = [threading.Thread(target=write_often, args=(root,)) for _ in range(3)]
    for thread in [*readers, *writers]:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert problems == []
    assert os.listdir(root.path / ".vcache/tmp") == []


# --- recency ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "touched"), [(2 * HOUR, True), (10.0, False), (-2 * HOUR, True), (0.9 * HOUR, False)]
)
def test_a_touch_is_at_most_hourly_and_no_time_stays_in_the_future(
    root: StoreRoot, age: float, *, touched: bool
) -> None:
    now = time.time()
    os.utime(path_of(root, 1), (now - age, now - age))
    DiskStore(root).touch(entry(1).key)
    after = path_of(root, 1).stat().st_mtime
    if touched:
        assert abs(after - now) < 60
    else:
        assert after == pytest.approx(now - age, abs=1e-3)


@pytest.mark.parametrize("error", [errno.EROFS, errno.EPERM, errno.ENOENT])
def test_a_touch_that_is_not_possible_is_none(root: StoreRoot, error: int) -> None:
    class Fixed(OsFiles):
        @staticmethod
        def touch(path: str, /) -> None:
            raise OSError(error, os.strerror(error), path)

    os.utime(path_of(root, 1), (0, 0))
    DiskStore(root, files=Fixed()).touch(entry(1).key)
    DiskStore(root).touch(entry(2).key)
    assert path_of(root, 1).stat().st_mtime == 0


@pytest.mark.parametrize("touch", [True, False])
def test_a_get_counts_as_use_unless_told_otherwise(root: StoreRoot, *, touch: bool) -> None:
    path = path_of(root, 1)
    before = time.time() - 2 * HOUR
    os.utime(path, (before, before))
    store = DiskStore(root, touch=touch)
    assert store.get(entry(1).key) is not None
    used = path.stat().st_mtime
    assert (abs(used - time.time()) < 60) is touch
    assert (used == before) is not touch


def test_a_damaged_entry_is_not_used(root: StoreRoot) -> None:
    path = path_of(root, 1)
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1])
    before = time.time() - 2 * HOUR
    os.utime(path, (before, before))
    assert DiskStore(root).get(entry(1).key) is None
    assert path.stat().st_mtime == before


# --- opening ---------------------------------------------------------------------------------


def test_opening_for_writing_sweeps_dead_temps_only(root: StoreRoot) -> None:
    folder = root.path / ".vcache/tmp"
    old, new = folder / "old", folder / "new"
    old.write_bytes(b"x")
    new.write_bytes(b"x")
    os.utime(old, (time.time() - 2 * HOUR,) * 2)
    DiskStore(root).close()
    assert old.exists()
    DiskStore(root, mode="w").close()
    assert os.listdir(folder) == ["new"]


def test_a_store_that_others_can_write_to_is_refused(root: StoreRoot) -> None:
    root.path.chmod(0o777)
    with pytest.raises(RefusedError, match="written by others"):
        DiskStore(root)
