"""The deed of a prune: one name after another, each looked at again in the moment it goes."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from vcache_cli.errors import AccessError
from vcache_cli.protocols import OwnDirectory
from vcache_cli.store.empties import EMPTY_SECONDS
from vcache_cli.store.handles import SWAPPED, Handles
from vcache_cli.store.owners import owners_of
from vcache_cli.store.rows import mtime_ns_of

if TYPE_CHECKING:
    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.prune_scope import Doomed

__all__ = ["Remover"]


class Remover:
    """Removes what was doomed where it still is the same. One thread.

    Args:
        root: the store.
        handles: of its root.
        now: when the plan was made, seconds since 1970.
    """

    def __init__(self, root: StoreRoot, handles: Handles, now: float) -> None:
        self._root, self._handles = root, handles
        self._owners = owners_of(root.path) if root.layout.shards is None else None
        self._empty_before_ns = int((now - EMPTY_SECONDS) * 1e9)

    def __call__(self, doomed: Doomed) -> str | None:
        """None where it was removed, empty where it is another one or gone, else why not.

        Raises:
            AccessError: the filesystem is read-only.
        """
        path = doomed.place or self._root.layout.path_of(doomed.key)
        try:
            return self._remove(doomed, path)
        except OSError as error:
            if error.errno == errno.EROFS:
                message = f"{os.path.join(self._root.path, path)}: {error.strerror}"
                raise AccessError(message) from error
            return "" if error.errno in SWAPPED else error.strerror or str(error)

    def _remove(self, doomed: Doomed, path: str) -> str | None:
        found = self._handles.stat(path)
        if (found.st_ino, mtime_ns_of(found)) != (doomed.inode, doomed.used_ns):
            return ""
        if not self._is_ours(found, path):
            return ""
        if doomed.is_directory:
            return None if stat.S_ISDIR(found.st_mode) and self._handles.rmdir(path) else ""
        above = self._age_of_own_directory(doomed)
        self._handles.unlink(path)
        if above is not None and above < self._empty_before_ns:
            with suppress(OSError):  # it stays, empty, for a later prune
                self._handles.rmdir(path.rpartition("/")[0])
        return None

    def _is_ours(self, found: os.stat_result, path: str) -> bool:
        """Where strangers may have put theirs, file and directory have to be our own user's."""
        if self._owners is None:
            return True
        above = path.rpartition("/")[0]
        uids = {found.st_uid}
        if above:
            uids.add(self._handles.stat_directory(above).st_uid)
        return uids <= self._owners

    def _age_of_own_directory(self, doomed: Doomed) -> int | None:
        """When the directory that is the entry's alone last changed, before the entry goes."""
        layout = self._root.layout
        if not (doomed.is_entry and isinstance(layout, OwnDirectory)):
            return None
        return self._handles.stat_directory(layout.directory_of(doomed.key)).st_mtime_ns
