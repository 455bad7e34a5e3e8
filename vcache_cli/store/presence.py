"""Whether an entry is in a store, asked from any thread or process."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from vcache_cli.store.meta import StoreRoot

__all__ = ["Presence"]


@dataclass(frozen=True, slots=True)
class Presence:
    """Looks at the entry's file each time; says nothing of damage. Picklable."""

    root: StoreRoot

    def __call__(self, key: str) -> bool:
        """True where a regular file lies in the key's place."""
        try:
            facts = os.lstat(f"{self.root.path}/{self.root.layout.path_of(key)}")
        except (OSError, ValueError):
            return False
        return stat.S_ISREG(facts.st_mode)
