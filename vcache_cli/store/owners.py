"""Whose files those are, where strangers may have put theirs beside ours."""

from __future__ import annotations

import os
import stat

from vcache_cli.errors import RefusedError
from vcache_cli.store.meta import vcache_dir

__all__ = ["anyone_may_write", "is_planted", "owners_of", "refuse_planted"]


def owners_of(root: str | os.PathLike[str]) -> frozenset[int]:
    """Users whose entries in `root` are looked after: ours; for root, its owner's as well."""
    us = os.geteuid()
    try:
        return frozenset({us} if us else {us, os.stat(root).st_uid})
    except OSError:
        return frozenset({us})


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
