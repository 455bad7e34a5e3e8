"""The one place where the store calls the operating system, so that faults can be injected."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from vcache_cli.errors import AccessError, StoreFullError, VcacheError
from vcache_cli.quantity import format_size

__all__ = [
    "DIRECTORY_FLAGS",
    "READ_FLAGS",
    "TEMP_FLAGS",
    "FileOps",
    "OsFiles",
    "explained",
    "make_directory",
    "sync_directory",
    "write_all",
]

READ_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Never follows a link, never waits for the other end of a pipe that lies where a file should."""
TEMP_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_CHUNK_BYTES: Final = 64 * 1024 * 1024
"""Some systems refuse a single write of more than 2 GiB."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY


class FileOps(Protocol):
    """System calls that the store makes on files. Any thread; each raises `OSError`."""

    def open(self, path: str, flags: int, mode: int = 0o600, /) -> int:
        """A descriptor, as `os.open`."""
        ...

    def close(self, fd: int, /) -> None:
        """Close a descriptor."""
        ...

    def fstat(self, fd: int, /) -> os.stat_result:
        """What a descriptor refers to."""
        ...

    def lstat(self, path: str, /) -> os.stat_result:
        """What lies at `path`; a link is not followed."""
        ...

    def read(self, fd: int, count: int, /) -> bytes:
        """At most `count` bytes; empty at the end."""
        ...

    def readv(self, fd: int, buffers: Sequence[memoryview], /) -> int:
        """Bytes read into `buffers`; may be fewer than they hold, 0 at the end."""
        ...

    def write(self, fd: int, data: bytes | memoryview, /) -> int:
        """Bytes of `data` written; may be fewer than it has."""
        ...

    def fchmod(self, fd: int, mode: int, /) -> None:
        """Set the permission bits, whatever the umask."""
        ...

    def fchown(self, fd: int, user: int, group: int, /) -> None:
        """Set the owner; for root alone."""
        ...

    def fsync(self, fd: int, /) -> None:
        """Return once the file's data, or the directory's names, are on the disk."""
        ...

    def replace(self, source: str, target: str, /) -> None:
        """Rename over whatever is at `target`, atomically."""
        ...

    def link(self, source: str, target: str, /) -> None:
        """A second name for a file; fails where `target` exists."""
        ...

    def unlink(self, path: str, /) -> None:
        """Remove a name."""
        ...

    def mkdir(self, path: str, mode: int = 0o700, /) -> None:
        """Make a directory; fails where there is one."""
        ...

    def touch(self, path: str, /) -> None:
        """Set the file's times to now; a link is not followed."""
        ...

    def open_at(self, name: str, flags: int, directory: int, /) -> int:
        """A descriptor of `name` in an open directory."""
        ...

    def stat_at(self, name: str, directory: int, /) -> os.stat_result:
        """What `name` is in an open directory; a link is not followed."""
        ...

    def unlink_at(self, name: str, directory: int, /) -> None:
        """Remove a name from an open directory."""
        ...

    def rmdir_at(self, name: str, directory: int, /) -> None:
        """Remove an empty directory from an open one."""
        ...

    def rename_at(self, name: str, directory: int, target: str, target_directory: int, /) -> None:
        """Move a name from an open directory to another."""
        ...

    def free_bytes(self, path: str, /) -> int:
        """Bytes that we may still write on the filesystem of `path`."""
        ...


class OsFiles:
    """The real ones. Holds nothing; any thread; picklable."""

    open = staticmethod(os.open)
    close = staticmethod(os.close)
    fstat = staticmethod(os.fstat)
    lstat = staticmethod(os.lstat)
    read = staticmethod(os.read)
    readv = staticmethod(os.readv)
    write = staticmethod(os.write)
    fchmod = staticmethod(os.fchmod)
    fchown = staticmethod(os.fchown)
    fsync = staticmethod(os.fsync)
    replace = staticmethod(os.replace)
    link = staticmethod(os.link)
    unlink = staticmethod(os.unlink)
    mkdir = staticmethod(os.mkdir)

    @staticmethod
    def touch(path: str, /) -> None:
        """Set the file's times to now; a link is not followed."""
        os.utime(path, follow_symlinks=False)

    @staticmethod
    def open_at(name: str, flags: int, directory: int, /) -> int:
        """A descriptor of `name` in an open directory."""
        return os.open(name, flags, dir_fd=directory)

    @staticmethod
    def stat_at(name: str, directory: int, /) -> os.stat_result:
        """What `name` is in an open directory; a link is not followed."""
        return os.stat(name, dir_fd=directory, follow_symlinks=False)

    @staticmethod
    def unlink_at(name: str, directory: int, /) -> None:
        """Remove a name from an open directory."""
        os.unlink(name, dir_fd=directory)

    @staticmethod
    def rmdir_at(name: str, directory: int, /) -> None:
        """Remove an empty directory from an open one."""
        os.rmdir(name, dir_fd=directory)

    @staticmethod
    def rename_at(name: str, directory: int, target: str, target_directory: int, /) -> None:
        """Move a name from an open directory to another."""
        os.rename(name, target, src_dir_fd=directory, dst_dir_fd=target_directory)

    @staticmethod
    def free_bytes(path: str, /) -> int:
        """Bytes that we may still write on the filesystem of `path`."""
        facts = os.statvfs(path)
        return facts.f_bavail * facts.f_frsize


def sync_directory(files: FileOps, path: str) -> None:
    """Make the names in the directory at `path` durable."""
    fd = files.open(path, DIRECTORY_FLAGS)
    try:
        files.fsync(fd)
    finally:
        with contextlib.suppress(OSError):  # nothing was written through this descriptor
            files.close(fd)


def make_directory(
    files: FileOps, path: str, mode: int, *, owner: tuple[int, int] | None = None
) -> bool:
    """Make a directory with `mode`, whatever the umask; False where it was there before.

    Args:
        files: the system calls.
        path: its place.
        mode: permission bits.
        owner: user and group that it is given to; None: it stays ours.
    """
    try:
        files.mkdir(path, 0o700)
    except FileExistsError:
        return False
    fd = files.open(path, DIRECTORY_FLAGS | os.O_NOFOLLOW)
    try:
        if owner:
            files.fchown(fd, *owner)
        files.fchmod(fd, mode)
    finally:
        files.close(fd)
    return True


def write_all(files: FileOps, fd: int, data: bytes | memoryview) -> None:
    """Write all of `data`, however little the system takes at a time."""
    view, done = memoryview(data), 0
    while done < len(view):
        count = files.write(fd, view[done : done + _CHUNK_BYTES])
        if count <= 0:
            raise OSError(errno.EIO, "the system wrote nothing")
        done += count


@contextlib.contextmanager
def explained(files: FileOps, path: str, *, needed_bytes: int | None = None) -> Iterator[None]:
    """Turn an `OSError` met while writing below `path` into the error that it stands for.

    Raises:
        StoreFullError: no space, or beyond a quota; the message has needed and free bytes.
        AccessError: not permitted, or a read-only filesystem.
        OSError: the disk failed in another way; it names a place.
    """
    try:
        yield
    except OSError as error:
        failure = _failure(error, files, path, needed_bytes)
        if failure is None:
            error.filename = error.filename or path  # a call on a descriptor names nothing
            raise
        raise failure from error


def _failure(
    error: OSError, files: FileOps, path: str, needed_bytes: int | None
) -> VcacheError | None:
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        needed = f"{format_size(needed_bytes)} needed, " if needed_bytes is not None else ""
        return StoreFullError(
            f"{path}: {reason} ({needed}{_free(files, path)})",
            hint="free some space on it, or run `vcache prune --max-size SIZE`",
        )
    if error.errno in _DENIED:
        return AccessError(
            f"{error.filename or path}: {reason}",
            hint="`vcache doctor` shows owner, mode and mount; or name another place with --store",
        )
    return None


def _free(files: FileOps, path: str) -> str:
    try:
        return f"{format_size(files.free_bytes(path))} free"
    except OSError:
        return "free space unknown"
