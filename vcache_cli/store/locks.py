"""Kernel locks on files: they die with their holder, so none is ever stale. Readers take none.

``write`` is held shared by whoever writes entries; ``gc`` exclusively by whoever deletes or
rebuilds, one at a time. They do not exclude each other.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from vcache_cli.errors import LockBusyError
from vcache_cli.store.files import OsFiles, explained
from vcache_cli.store.meta import StoreRoot, vcache_dir
from vcache_cli.store.own import in_place, own_folder
from vcache_cli.store.owners import is_planted, refuse_planted

__all__ = ["LockHolder", "gc_lock", "lock_holders", "write_lock", "writers_active"]

_POLL_SECONDS: Final = 0.02
_UNSUPPORTED: Final = frozenset({errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP})
_AT_WORK: Final = {"gc": "a prune, repair or rebuild", "write": "what bars all writers"}
"""Who holds a lock so that others cannot have it."""
_FILES: Final = OsFiles()
_LOCK_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A process that holds a lock of the store."""

    lock: str
    """``write`` or ``gc``."""
    pid: int
    """0 or less where the process lies outside our namespace."""
    exclusive: bool


@contextlib.contextmanager
def write_lock(root: StoreRoot, *, timeout_seconds: float = 10.0) -> Iterator[bool]:
    """Hold the write lock, shared with other writers; gives False where there are no locks.

    A filesystem without locks loses only the grace that prune grants to a run in progress.

    Raises:
        LockBusyError: held exclusively all the time.
        AccessError, StoreFullError: the lock's file cannot be made.
        NotAStoreError: something else lies in its place.
    """
    with _lock_file(root, "write") as fd:
        yield _acquire(fd, fcntl.LOCK_SH, root, "write", time.monotonic() + timeout_seconds)


@contextlib.contextmanager
def gc_lock(root: StoreRoot) -> Iterator[None]:
    """Hold the lock of prune, repair and rebuild, or fail at once.

    Raises:
        LockBusyError: another process holds it, or the filesystem has no locks.
        AccessError, StoreFullError: the lock's file cannot be made.
        NotAStoreError: something else lies in its place.
        RefusedError: everyone may write to the store, and its ``.vcache`` is another user's.
    """
    refuse_planted(root.path)
    with _lock_file(root, "gc") as fd:
        if not _acquire(fd, fcntl.LOCK_EX, root, "gc", 0.0):
            raise LockBusyError(
                f"{root.path}: this filesystem has no locks",
                hint="keep the store on a local filesystem",
            )
        yield


def writers_active(root: StoreRoot) -> bool:
    """True where anyone, this process too, holds the write lock now. Makes nothing."""
    if is_planted(root.path):
        return False
    try:
        fd = os.open(_path(root, "write"), _LOCK_FLAGS)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _UNSUPPORTED
    finally:
        os.close(fd)
    return False


def lock_holders(root: StoreRoot) -> list[LockHolder]:
    """Who holds the store's locks, as far as the system says; empty where it does not."""
    wanted: dict[str, str] = {}
    for name in ("write", "gc"):
        with contextlib.suppress(OSError):
            facts = os.lstat(_path(root, name))
            major, minor = os.major(facts.st_dev), os.minor(facts.st_dev)
            wanted[f"{major:02x}:{minor:02x}:{facts.st_ino}"] = name
    with contextlib.suppress(OSError), open("/proc/locks", encoding="ascii") as lines:
        rows = [line.split() for line in lines]
        return [
            LockHolder(wanted[row[5]], int(row[4]), row[3] == "WRITE")
            for row in rows
            if len(row) == 8 and row[1] == "FLOCK" and row[5] in wanted
        ]
    return []


def _whose(root: StoreRoot, name: str) -> str:
    """Names the process, where the system tells."""
    pids = [str(each.pid) for each in lock_holders(root) if each.lock == name and each.pid > 0]
    return f" (process {pids[0]})" if pids else ""


def _path(root: StoreRoot, name: str) -> str:
    return str(vcache_dir(root.path) / "locks" / name)


@contextlib.contextmanager
def _lock_file(root: StoreRoot, name: str) -> Iterator[int]:
    with explained(_FILES, str(root.path)):
        fd = _open_lock(root, name)
    try:
        yield fd
    finally:
        os.close(fd)


def _open_lock(root: StoreRoot, name: str) -> int:
    """Read and write: over NFS a lock needs a descriptor that may write."""
    with own_folder(root, "locks") as folder, in_place(_path(root, name), "a file"):
        with contextlib.suppress(FileNotFoundError):
            return _regular(os.open(name, _LOCK_FLAGS, dir_fd=folder))
        try:
            fd = os.open(name, _LOCK_FLAGS | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
        except FileExistsError:
            return _regular(os.open(name, _LOCK_FLAGS, dir_fd=folder))
        os.fchmod(fd, root.meta.modes.lock)
        return fd


def _regular(fd: int) -> int:
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))


def _acquire(fd: int, kind: int, root: StoreRoot, name: str, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return True
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                return False
            if error.errno not in {errno.EAGAIN, errno.EACCES}:
                raise
        if time.monotonic() >= deadline:
            raise LockBusyError(
                f"{root.path}: {_AT_WORK[name]} is running{_whose(root, name)}",
                hint="wait for it to end; `vcache doctor` shows which process it is",
            )
        time.sleep(_POLL_SECONDS)
