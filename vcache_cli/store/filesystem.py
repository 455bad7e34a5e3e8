"""What kind of filesystem a path lies on, as far as the system says."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Final

__all__ = ["Filesystem", "filesystem_of"]

_NETWORK: Final = (
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "davfs",
    "fuse.",
    "gfs",
    "glusterfs",
    "gpfs",
    "lustre",
    "ncpfs",
    "nfs",
    "ocfs2",
    "pvfs2",
    "smb",
    "virtiofs",
)
"""Types, by how they begin, on which locks and shared memory cannot be relied upon."""

_MOUNTS: Final = "/proc/self/mountinfo"


@dataclass(frozen=True, slots=True)
class Filesystem:
    """The filesystem below a path; what the system does not say is None."""

    type: str | None
    free_bytes: int | None
    """Free to us, without root's reserve."""
    network: bool | None

    def as_json(self) -> dict[str, Any]:
        """The field ``fs`` of ``vcache.stats/1``."""
        value = {"type": self.type, "free": self.free_bytes, "network": self.network}
        return {name: part for name, part in value.items() if part is not None}


def filesystem_of(path: Path) -> Filesystem:
    """Best effort; never raises."""
    name = _type_name(path)
    network = None if name is None else name.startswith(_NETWORK)
    return Filesystem(name, _free_bytes(path), network)


def _free_bytes(path: Path) -> int | None:
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def _type_name(path: Path) -> str | None:
    try:
        device = os.stat(path).st_dev
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as mounts:
            lines = mounts.read().splitlines()
    except OSError:
        return None
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in reversed(lines):
        fields, _, tail = line.partition(" - ")
        if fields.split(" ")[2:3] == [wanted]:
            return tail.split(" ")[0] or None
    return _longest_mount(os.path.realpath(path), lines)


def _longest_mount(path: str, lines: list[str]) -> str | None:
    """By the longest mount point above `path`: btrfs gives subvolumes devices of their own."""
    best, name = "", None
    for line in lines:
        fields, _, tail = line.partition(" - ")
        point = "".join(fields.split(" ")[4:5])
        if len(point) >= len(best) and (path + "/").startswith(point.rstrip("/") + "/"):
            best, name = point, tail.split(" ")[0]
    return name
