"""Locks of the kernel: shared among writers, one for whoever deletes, gone with their holder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.care import make_store
from vcache_cli.errors import AccessError, LockBusyError, NotAStoreError
from vcache_cli.store import (
    DiskStore,
    LockHolder,
    StoreRoot,
    gc_lock,
    lock_holders,
    write_lock,
    writers_active,
)

HOLD = """
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(fd, int(sys.argv[2]))
print("held", flush=True)
time.sleep(60)
"""
SHARED, EXCLUSIVE = 1, 2


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    """A store without entries."""
    return make_store(tmp_path / "store")


@pytest.fixture
def elsewhere(root: StoreRoot) -> Iterator[list[subprocess.Popen[str]]]:
    """Other processes, ended after the test."""
    running: list[subprocess.Popen[str]] = []
    yield running
    for process in running:
        process.kill()
        process.communicate()


def hold(
    elsewhere: list[subprocess.Popen[str]], root: StoreRoot, name: str, kind: int
) -> subprocess.Popen[str]:
    """A process that holds a lock of the store."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root.path / ".vcache/locks" / name), str(kind)],
        stdout=subprocess.PIPE,
        text=True,
    )
    elsewhere.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_many_may_write_while_one_deletes(root: StoreRoot) -> None:
    with write_lock(root) as first, write_lock(root) as second, gc_lock(root):
        assert first
        assert second


def test_a_second_one_that_deletes_is_told_at_once(root: StoreRoot) -> None:
    with (
        gc_lock(root),
        pytest.raises(LockBusyError, match=r"a prune.* is running") as caught,
        gc_lock(root),
    ):
        pass
    assert caught.value.exit_code == 11
    with gc_lock(root):
        pass


def test_a_writer_waits_only_so_long(
    root: StoreRoot, elsewhere: list[subprocess.Popen[str]]
) -> None:
    hold(elsewhere, root, "write", EXCLUSIVE)
    with pytest.raises(LockBusyError), write_lock(root, timeout_seconds=0.05):
        pass


def test_a_lock_dies_with_its_holder(
    root: StoreRoot, elsewhere: list[subprocess.Popen[str]]
) -> None:
    process = hold(elsewhere, root, "gc", EXCLUSIVE)
    with pytest.raises(LockBusyError), gc_lock(root):
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    with gc_lock(root):
        pass


def test_a_store_that_is_open_for_writing_shows(root: StoreRoot) -> None:
    assert not writers_active(root)
    with DiskStore(root, mode="w"):
        assert writers_active(root)
    assert not writers_active(root)
    with DiskStore(root):
        assert not writers_active(root)


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="the system does not tell")
def test_the_holders_are_named(root: StoreRoot, elsewhere: list[subprocess.Popen[str]]) -> None:
    assert lock_holders(root) == []
    process = hold(elsewhere, root, "gc", EXCLUSIVE)
    with write_lock(root):
        found = {(holder.lock, holder.exclusive): holder.pid for holder in lock_holders(root)}
    if not found:
        pytest.skip("this system's /proc/locks does not show its locks")
    assert found == {("gc", True): process.pid, ("write", False): os.getpid()}
    assert LockHolder("gc", process.pid, exclusive=True) in lock_holders(root)


def test_the_folder_of_locks_is_made_again(root: StoreRoot) -> None:
    (root.path / ".vcache/locks").rmdir()
    with gc_lock(root):
        pass


def test_a_lock_that_is_a_link_is_refused(root: StoreRoot, tmp_path: Path) -> None:
    (root.path / ".vcache/locks/gc").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotAStoreError, match="locks/gc: expected a file, found a link"):  # noqa: SIM117
        with gc_lock(root):
            pass
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_that_cannot_be_written_cannot_be_locked(root: StoreRoot) -> None:
    (root.path / ".vcache/locks").chmod(0o500)
    with pytest.raises(AccessError), gc_lock(root):
        pass
