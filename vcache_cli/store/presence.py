"""Whether an entry is in a store, asked from any thread or process."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Final

from vcache_cli.store.files import FileOps, OsFiles
from vcache_cli.store.meta import StoreRoot

__all__ = ["Presence", "has_real_shards", "shard_kind"]

_FILES: Final = OsFiles()


def has_real_shards(root: StoreRoot) -> bool:
    """True for a store of ours: no link is followed in the place of a shard, and none is made."""
    return bool(root.meta.store_id) and root.layout.shards is not None


def shard_kind(files: FileOps, path: str) -> int:
    """What lies where the file at `path` has its shard, as `stat.S_IFMT` says.

    Raises:
        OSError: nothing is there.
    """
    return stat.S_IFMT(files.lstat(path.rpartition("/")[0]).st_mode)


@dataclass(frozen=True, slots=True)
class Presence:
    """Looks at the entry's file each time; says nothing of damage. Picklable."""

    root: StoreRoot

    def __call__(self, key: str) -> bool:
        """True where a regular file lies in the key's place."""
        try:
            path = f"{self.root.path}/{self.root.layout.path_of(key)}"
            if has_real_shards(self.root) and shard_kind(_FILES, path) != stat.S_IFDIR:
                return False
            facts = os.lstat(path)
        except (OSError, ValueError):
            return False
        return stat.S_ISREG(facts.st_mode)
