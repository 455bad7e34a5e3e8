"""What tells that no name was made or removed in a directory since it was looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vcache_cli.store.index_values import signed
from vcache_cli.store.rows import mtime_ns_of, within_64_bits

if TYPE_CHECKING:
    import os
    from typing import Final, Self

__all__ = ["UNSEEN", "DirectoryState"]


class DirectoryState(NamedTuple):
    """Equal where nothing came or went, but for what happens within one tick of the clock."""

    mtime_ns: int = 0
    """0 where it was not looked at, or may change again unnoticed."""
    changed_ns: int = 0
    """Its ctime: `cp -a` and `tar -x` set an mtime back, and nothing does that."""
    inode: int = 0
    """With a sign, as the index holds it."""

    @classmethod
    def of(cls, stat: os.stat_result) -> Self:
        """From a stat of the directory."""
        changed_ns = within_64_bits(stat.st_ctime_ns)
        return cls(mtime_ns_of(stat), changed_ns, signed(stat.st_ino))


UNSEEN: Final = DirectoryState()
"""Of what could not be looked at."""
