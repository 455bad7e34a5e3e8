"""Whose files those are, where strangers may have put theirs beside ours."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from vcache_cli.errors import RefusedError
from vcache_cli.store.meta import vcache_dir

if TYPE_CHECKING:
    from vcache_cli.store.meta import StoreRoot

__all__ = [
    "anyone_may_write",
    "directory_mode",
    "heir_of",
    "is_planted",
    "owners_of",
    "refuse_planted",
]


def owners_of(root: str | os.PathLike[str]) -> frozenset[int]:
    """Users whose entries in `root` are looked after: ours; for root, its owner's as well."""
    us = os.geteuid()
    try:
        return frozenset({us} if us else {us, os.stat(root).st_uid})
    except OSError:
        return frozenset({us})


def heir_of(root: str | os.PathLike[str]) -> tuple[int, int] | None:
    """User and group to whom root gives what it makes in another's store; None: nobody."""
    try:
        found = os.stat(root)
    except OSError:
        return None
    return (found.st_uid, found.st_gid) if not os.geteuid() and found.st_uid else None


def directory_mode(root: StoreRoot) -> int:
    """Permission bits of a new directory of entries.

    In a server's own folder, who may look into the folder may look into that directory too: the
    server may run as another user than we.
    """
    mode = root.meta.modes.directory
    if root.layout.checksum_required:
        return mode
    try:
        return mode | stat.S_IMODE(os.stat(root.path).st_mode) & 0o055
    except OSError:
        return mode


def anyone_may_write(root: str | os.PathLike[str]) -> bool:
    """True for a directory such as ``/tmp``."""
    try:
        return bool(os.stat(root).st_mode & stat.S_IWOTH)
    except OSError:
        return False


def is_planted(root: str | os.PathLike[str]) -> bool:
    """True where `.vcache` may be a stranger's: whatever it says is then not believed."""
    try:
        found = os.lstat(vcache_dir(root))
    except OSError:
        return False
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid in owners_of(root)
    return not ours and anyone_may_write(root)


def refuse_planted(root: str | os.PathLike[str]) -> None:
    """Keep from writing into a `.vcache` that may be a stranger's.

    Raises:
        RefusedError: it may be.
    """
    if is_planted(root):
        raise RefusedError(
            f"{vcache_dir(root)} is another user's, in a directory that everyone may write to",
            hint="ask its owner to remove it, or give the server a directory of its own",
        )
