"""Checks of the place where a store lies or would lie: file system, space, traps."""

from __future__ import annotations

import os
import stat
from itertools import islice
from typing import TYPE_CHECKING

from vcache_cli.doctor.checks import Check, State
from vcache_cli.quantity import format_size
from vcache_cli.store.filesystem import filesystem_of

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Final

__all__ = ["check_inside", "check_place", "judge_filesystem", "judge_inodes", "judge_path"]

_LOW_BYTES: Final = 1024**3
_LOW_INODES: Final = 10_000
_MOST_FOLDERS: Final = 4096
_PASSING: Final = {
    "tmpfs": "in memory: it is empty after a restart",
    "ramfs": "in memory: it is empty after a restart",
    "overlay": "a layer of a container: it goes with the container",
}
_SYNCED: Final = (
    *("Library/Mobile Documents", "Library/CloudStorage", "Dropbox", "OneDrive"),
    *("Google Drive", "Nextcloud", "iCloud"),
)
_FORCES_CASE: Final = "keys are lower case, so that does no harm"


def check_place(place: Path) -> list[Check]:
    """Everything about a folder that is there, whatever lies in it."""
    found = filesystem_of(place)
    return [
        judge_filesystem(found.type, network=found.network, ignores_case=_ignores_case(place)),
        judge_path(place),
        _judge_space(place, found.free_bytes),
        judge_inodes(*_inodes(place)),
    ]


def judge_filesystem(type_name: str | None, *, network: bool | None, ignores_case: bool) -> Check:
    """What this kind of file system does to a store. Pure."""
    if network:
        message = f"{type_name}, a network file system: locks and the index may not work there"
        return Check("filesystem", State.WARN, message, "keep the store on a local disk")
    if type_name in _PASSING:
        fix = "name a folder on a disk, or on a mounted volume, with --store"
        return Check("filesystem", State.WARN, f"{type_name}, {_PASSING[type_name]}", fix)
    told = [type_name or "unknown (the system does not say)"]
    told += ["local"] if network is not None else []
    told += [f"upper and lower case are the same: {_FORCES_CASE}"] if ignores_case else []
    return Check("filesystem", State.OK, ", ".join(told))


def judge_path(place: Path) -> Check:
    """Does a program copy this folder elsewhere, or take files away while they are read? Pure."""
    synced = next((each for each in _SYNCED if f"/{each}" in f"{place}/"), None)
    if synced is None:
        return Check("folder", State.OK, "no folder that is known to be synchronised")
    message = f"{place}: lies in `{synced}`, which may upload it, or move files away"
    return Check("folder", State.WARN, message, "name a folder outside of it with --store")


def judge_inodes(free: int, total: int) -> Check:
    """Can more files be made? Some file systems have no limit, and say 0 of 0. Pure."""
    if not total:
        return Check("inodes", State.OK, "this file system has no fixed number of files")
    message = f"{free:,} more files can be made"
    if free < _LOW_INODES:
        fix = "remove small files, or run `vcache prune --max-size SIZE`: an entry is one file"
        return Check("inodes", State.WARN, message, fix)
    return Check("inodes", State.OK, message)


def check_inside(root: Path) -> Check:
    """May we write in the folders that are there already?"""
    user, strange = os.geteuid(), []
    for path in _folders(root):
        facts = path.lstat()
        ours = facts.st_uid == user
        if not ours or not os.access(path, os.W_OK | os.X_OK):
            strange.append((path, facts.st_uid, stat.S_IMODE(facts.st_mode), ours))
    if not strange:
        return Check("permissions", State.OK, "every folder in it is ours to write")
    path, owner, mode, ours = strange[0]
    more = f", and {len(strange) - 1:,} more" if len(strange) > 1 else ""
    message = f"{path}: owner {owner}, mode {mode:04o}{more}: not ours to write"
    fix = f"chmod -R u+rwX {root}" if ours else f"sudo chown -R {user} {root}"
    return Check("permissions", State.WARN, message, f"{fix}; reading works as far as modes allow")


def _folders(root: Path) -> list[Path]:
    own = root / ".vcache"
    found = []
    for parent in (root, own):
        try:
            with os.scandir(parent) as entries:
                names = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        found += [parent / name for name in islice(sorted(names), _MOST_FOLDERS)]
    return found


def _judge_space(place: Path, free: int | None) -> Check:
    if free is None:
        return Check("space", State.WARN, "free space is not known", f"look with `df {place}`")
    message = f"{format_size(free)} free"
    if free < _LOW_BYTES:
        fix = "free some space, or run `vcache prune --max-size SIZE`"
        return Check("space", State.WARN, message, fix)
    return Check("space", State.OK, message)


def _inodes(place: Path) -> tuple[int, int]:
    try:
        found = os.statvfs(place)
    except OSError:
        return 0, 0
    return found.f_favail, found.f_files


def _ignores_case(place: Path) -> bool:
    """True where the folder is found under a name of other case as well."""
    other = place.with_name(place.name.swapcase()) if place.name else place
    try:
        return other != place and os.path.samestat(place.stat(), other.stat())
    except OSError:
        return False
