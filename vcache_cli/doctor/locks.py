"""Who holds a lock file, as the kernel says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Final

__all__ = ["lock_holders", "parse_locks"]

_LIST: Final = "/proc/locks"


def lock_holders(folder: Path) -> list[tuple[str, int]] | None:
    """(name of the lock file, process id) of each lock held in `folder`, sorted.

    None where the system has no list of locks. Takes no lock itself.
    """
    try:
        with open(_LIST, encoding="ascii") as listing:
            text = listing.read()
    except OSError:
        return None
    names = {}
    try:
        with os.scandir(folder) as found:
            for each in found:
                facts = each.stat(follow_symlinks=False)
                names[facts.st_ino] = each.name
    except OSError:
        return []
    held = parse_locks(text)
    return sorted((names[inode], pid) for inode, pid in held if inode in names)


def parse_locks(text: str) -> list[tuple[int, int]]:
    """(inode, process id) of each flock that is held; those who wait are left out.

    Device numbers are not compared: some file systems show others there than `stat` does.

    >>> parse_locks("1: FLOCK  ADVISORY  WRITE 71 08:01:9182 0 EOF")
    [(9182, 71)]
    """
    found = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[1] == "FLOCK":
            found.append((int(fields[5].rpartition(":")[2]), int(fields[4])))
    return found
