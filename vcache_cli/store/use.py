"""Finding an entry counts as using it: one look at its file tells both, or one at its shard."""

from __future__ import annotations

import os
import stat
import time
from itertools import compress, count
from operator import not_
from typing import TYPE_CHECKING

from vcache_cli.store.files import OsFiles
from vcache_cli.store.listings import TOUCH_NS, Listings
from vcache_cli.store.presence import has_real_shards, shard_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vcache_cli.store.files import FileOps
    from vcache_cli.store.listings import Uses
    from vcache_cli.store.meta import StoreRoot

__all__ = ["Use"]


class Use:
    """Whether an entry is there, asked of the disk each time; one thread.

    So what another process prunes meanwhile is missed soon after it is gone. That a shard is no
    link is looked up once in a run.

    Args:
        root: the store.
        touch: marks an entry as used, by key; called where that was over an hour ago.
        uses: what the index knows of uses; without it no shard is read as a whole.
        files: the system calls.
    """

    def __init__(
        self,
        root: StoreRoot,
        touch: Callable[[str], None],
        *,
        uses: Uses | None = None,
        files: FileOps | None = None,
    ) -> None:
        self._base = os.fspath(root.path)
        self._layout = root.layout
        self._touch = touch
        self._files = files or OsFiles()
        self._has_real_shards = has_real_shards(root)
        self._real_shards: set[str] = set()
        self._uses = uses
        self._listings = Listings(root, uses) if uses and self._has_real_shards else None

    def are_there(self, keys: Sequence[str]) -> list[bool]:
        """What asking each says, in order."""
        if not self._listings:
            return [self(key) for key in keys]
        self._listings.refresh()
        listed = self._listings.keys
        found = [*map(listed.__contains__, keys)]
        self._listings.ask(compress(keys, map(not_, found)))
        for place in compress(count(), map(not_, found)):
            found[place] = keys[place] in listed or self._look(keys[place])
        return found

    def __call__(self, key: str) -> bool:
        """True where a regular file lies in the key's place; it was used now."""
        if self._listings:
            self._listings.ask([key])
        return self._look(key)

    def _look(self, key: str) -> bool:
        try:
            path = f"{self._base}/{self._layout.path_of(key)}"
            if self._has_real_shards and not self._is_real(path):
                return False
            facts = self._files.lstat(path)
        except (OSError, ValueError):
            return False
        if not stat.S_ISREG(facts.st_mode):
            return False
        if not 0 <= time.time_ns() - facts.st_mtime_ns < TOUCH_NS:
            self._touch(key)
        elif self._uses:
            self._uses.mark_used(key, facts.st_mtime_ns)
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
