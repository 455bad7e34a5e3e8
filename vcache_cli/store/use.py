"""Finding an entry counts as using it: one look at its file tells both."""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING, Final

from vcache_cli.store.files import OsFiles
from vcache_cli.store.presence import has_real_shards, shard_kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from vcache_cli.store.files import FileOps
    from vcache_cli.store.meta import StoreRoot

__all__ = ["Use"]

_TOUCH_SECONDS: Final = 3600.0


class Use:
    """Whether an entry is there, asked of the disk each time; one thread.

    So what another process prunes meanwhile is missed as soon as it is gone. A shard's folder is
    looked at once in a run.

    Args:
        root: the store.
        touch: marks an entry as used, by key; called where that was over an hour ago.
        files: the system calls.
    """

    def __init__(
        self, root: StoreRoot, touch: Callable[[str], None], *, files: FileOps | None = None
    ) -> None:
        self._base = os.fspath(root.path)
        self._layout = root.layout
        self._touch = touch
        self._files = files or OsFiles()
        self._has_real_shards = has_real_shards(root)
        self._real_shards: set[str] = set()

    def __call__(self, key: str) -> bool:
        """True where a regular file lies in the key's place; it was used now."""
        try:
            path = f"{self._base}/{self._layout.path_of(key)}"
            if self._has_real_shards and not self._is_real(path):
                return False
            facts = self._files.lstat(path)
        except (OSError, ValueError):
            return False
        if not stat.S_ISREG(facts.st_mode):
            return False
        if not 0 <= time.time() - facts.st_mtime < _TOUCH_SECONDS:
            self._touch(key)
        return True

    def _is_real(self, path: str) -> bool:
        """False for a link in the place of a shard.

        Raises:
            OSError: there is no such shard.
        """
        shard = path.rpartition("/")[0]
        if shard not in self._real_shards:
            if shard_kind(self._files, path) != stat.S_IFDIR:
                return False
            self._real_shards.add(shard)
        return True
