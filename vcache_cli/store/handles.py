"""Removing and moving by directory handles: what is swapped for a link meanwhile stays whole."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from vcache_cli.store.files import DIRECTORY_FLAGS

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Final, Self

    from vcache_cli.store.files import FileOps

__all__ = ["SWAPPED", "Handles"]

SWAPPED: Final = frozenset({errno.ENOENT, errno.ESTALE, errno.ENOTDIR, errno.ELOOP})
"""What says that no directory of that name is there any more: gone, or something else now."""
_OCCUPIED: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY})


class Handles:
    """Names below a root, each reached step by step without following a link.

    What is done to a name is done in the very directory that was looked at. One thread; the last
    directory stays open, since neighbours tend to be asked for together.

    Raises:
        OSError: the root cannot be opened.
    """

    def __init__(self, files: FileOps, root: Path) -> None:
        self._files = files
        self._root = files.open(os.fspath(root), DIRECTORY_FLAGS)
        self._path, self._fd = "", self._root

    def __enter__(self) -> Self:
        """The handles themselves."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self._leave()
        self._files.close(self._root)

    def directory(self, path: str) -> int:
        """A descriptor of the directory at `path`, valid until the next call.

        Raises:
            OSError: it is not there, or it or one above it is not a directory.
        """
        if path == self._path:
            return self._fd
        self._leave()
        fd = self._root
        for part in path.split("/") if path else ():
            try:
                below = self._files.open_at(part, DIRECTORY_FLAGS | os.O_NOFOLLOW, fd)
            finally:
                self._close(fd)
            fd = below
        self._path, self._fd = path, fd
        return fd

    def stat(self, path: str) -> os.stat_result:
        """What lies at `path`; a link is not followed.

        Raises:
            OSError: nothing is there, or a directory above it is none.
        """
        above, _, name = path.rpartition("/")
        return self._files.stat_at(name, self.directory(above))

    def unlink(self, path: str) -> None:
        """Remove the name of a file.

        Raises:
            OSError: it cannot be removed.
        """
        above, _, name = path.rpartition("/")
        self._files.unlink_at(name, self.directory(above))

    def move(self, path: str, folder: int, name: str) -> None:
        """Move the file to `name` in an open folder of ours on the same filesystem.

        Raises:
            OSError: it cannot be moved.
        """
        above, _, old = path.rpartition("/")
        self._files.rename_at(old, self.directory(above), name, folder)

    def rmdir(self, path: str) -> bool:
        """Remove a directory that is empty; False where it is not, or is in use.

        Raises:
            OSError: it cannot be removed for another reason.
        """
        above, _, name = path.rpartition("/")
        try:
            self._files.rmdir_at(name, self.directory(above))
        except OSError as error:
            if error.errno in _OCCUPIED:
                return False
            raise
        return True

    def stat_directory(self, path: str) -> os.stat_result:
        """What the directory at `path` is.

        Raises:
            OSError: it is not there, or not a directory.
        """
        return self._files.fstat(self.directory(path))

    def _leave(self) -> None:
        path, fd = self._path, self._fd
        self._path, self._fd = "", self._root
        if path:
            self._close(fd)

    def _close(self, fd: int) -> None:
        if fd != self._root:
            with suppress(OSError):  # nothing was written through it
                self._files.close(fd)
