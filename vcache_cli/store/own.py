"""Folders of ours in `.vcache`, reached without following a link: nothing is made outside."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vcache_cli.errors import NotAStoreError
from vcache_cli.store.files import DIRECTORY_FLAGS, OsFiles, explained
from vcache_cli.store.meta import vcache_dir

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from vcache_cli.store.meta import StoreRoot

__all__ = ["in_place", "own_folder"]

_FLAGS: Final = DIRECTORY_FLAGS | os.O_NOFOLLOW
_IN_THE_WAY: Final = frozenset({errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO})
"""What opening says where a link, a file, a folder or a socket lies in the place of ours."""
_KINDS: Final = {
    stat.S_IFLNK: "a link",
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
}


@contextmanager
def in_place(path: str, expected: str) -> Iterator[None]:
    """Turn what opening `path` says of something else in its place into words.

    Raises:
        NotAStoreError: something else lies there.
        OSError: it cannot be opened for another reason.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _IN_THE_WAY:
            error.filename = path  # opened by a handle, it has but the last part
            raise
        raise NotAStoreError(
            f"{path}: expected {expected}, found {_found(path)}",
            hint="see what it is and move it away; `vcache` makes its own anew",
        ) from error


def _found(path: str) -> str:
    try:
        return _KINDS.get(stat.S_IFMT(os.lstat(path).st_mode), "something else")
    except OSError:
        return "something else"


@contextmanager
def own_folder(root: StoreRoot, name: str) -> Iterator[int]:
    """A descriptor of the folder `name` in `.vcache`, while inside; made where it is missing.

    Raises:
        NotAStoreError: something else lies in the place of one of them.
        StoreFullError, AccessError, OSError: see `files.explained`.
    """
    with explained(OsFiles(), str(root.path)):
        fd = _open_own(root, name)
    try:
        yield fd
    finally:
        os.close(fd)


def _open_own(root: StoreRoot, name: str) -> int:
    path, mode = str(vcache_dir(root.path)), root.meta.modes.directory
    own = _open_folder(path, path, None, mode)
    try:
        return _open_folder(name, f"{path}/{name}", own, mode)
    finally:
        os.close(own)


def _open_folder(name: str, path: str, above: int | None, mode: int) -> int:
    with in_place(path, "a folder"):
        try:
            return os.open(name, _FLAGS, dir_fd=above)
        except FileNotFoundError:
            made = _make(name, above)
        fd = os.open(name, _FLAGS, dir_fd=above)
    if made:
        os.fchmod(fd, mode)  # whatever the umask
    return fd


def _make(name: str, above: int | None) -> bool:
    try:
        os.mkdir(name, 0o700, dir_fd=above)
    except FileExistsError:  # another process was faster, or a link to nothing
        return False
    return True
