"""Whose store it is: anyone who can write to one can forge a valid checksum."""

from __future__ import annotations

import os
import stat

from vcache_cli.errors import AccessError, RefusedError
from vcache_cli.store.meta import StoreRoot

__all__ = ["check_trust"]


def check_trust(root: StoreRoot, *, trusted_uids: frozenset[int] = frozenset()) -> None:
    """Refuse a store that someone else could have filled: a checksum is easily forged.

    A parent that others may write to needs no check: what they can put there is theirs, and the
    owner's check refuses it.

    Raises:
        RefusedError: others may write to the root, or it belongs to someone else.
        AccessError: the root cannot be examined.
    """
    try:
        facts = os.stat(root.path)
    except OSError as error:
        raise AccessError(f"{root.path}: {error.strerror}") from error
    others = 0o002 if root.meta.shared == "group" else 0o022
    if facts.st_mode & others:
        raise RefusedError(
            f"{root.path} can be written by others (mode {stat.S_IMODE(facts.st_mode):04o})",
            hint=f"chmod {'o' if others == 0o002 else 'go'}-w {root.path}",
        )
    us = os.geteuid()
    if root.meta.shared == "private" and us and facts.st_uid not in {us, 0, *trusted_uids}:
        raise RefusedError(
            f"{root.path} belongs to uid {facts.st_uid}, this process runs as uid {us}",
            hint=f"run as its owner, or: sudo chown -R {us} {root.path}",
        )
