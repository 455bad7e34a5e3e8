"""Damaged entries, moved aside within the store: out of every reader's way, kept as evidence."""

from __future__ import annotations

import os
import re
import secrets
from typing import TYPE_CHECKING

from vcache_cli.quantity import format_time, parse_time
from vcache_cli.store.create import write_meta
from vcache_cli.store.files import OsFiles
from vcache_cli.store.handles import SWAPPED, Handles
from vcache_cli.store.meta import vcache_dir
from vcache_cli.store.own import own_folder
from vcache_cli.store.rows import mtime_ns_of

if TYPE_CHECKING:
    from typing import Final

    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.rows import FileFacts

__all__ = ["QUARANTINE_SECONDS", "is_still", "move_to_quarantine", "quarantined_seconds"]

QUARANTINE_SECONDS: Final = 30 * 86_400.0
"""How long evidence is kept before a prune removes it."""

_NAME: Final = re.compile(r"(\d{8}T\d{6}Z)-.*", re.DOTALL)
_MAX_NAME_BYTES: Final = 160


def is_still(root: StoreRoot, facts: FileFacts) -> bool:
    """False where the file was touched, replaced or removed since it was looked at.

    True where the disk cannot tell: what was found of the file is then not to be forgotten.
    """
    try:
        found = os.lstat(os.path.join(root.path, facts.path))
    except OSError as error:
        return error.errno not in SWAPPED
    return (found.st_ino, mtime_ns_of(found)) == (facts.inode, facts.mtime_ns)


def move_to_quarantine(root: StoreRoot, facts: FileFacts, finding: str, now: float) -> str | None:
    """Move a damaged file aside; its new path below the root, None where it is another file now.

    Args:
        root: the store; the caller holds its gc lock.
        facts: the file as it was when the damage was found.
        finding: the kind of damage; becomes part of the name.
        now: seconds since 1970.

    Raises:
        NotAStoreError: something else lies in the place of the quarantine.
        OSError: it cannot be moved.
    """
    if not is_still(root, facts):
        return None
    if not (vcache_dir(root.path) / "quarantine").is_dir():
        write_meta(root.path, root.meta)
    stamp = format_time(now).replace("-", "").replace(":", "")
    name = os.fsdecode(os.fsencode(facts.path.rpartition("/")[2])[-_MAX_NAME_BYTES:])
    target = f"{stamp}-{finding}-{secrets.token_hex(4)}-{name}"
    with own_folder(root, "quarantine") as folder, Handles(OsFiles(), root.path) as handles:
        found = handles.stat(facts.path)  # again, in the directory that it is taken out of
        if (found.st_ino, mtime_ns_of(found)) != (facts.inode, facts.mtime_ns):
            return None
        handles.move(facts.path, folder, target)
    return f".vcache/quarantine/{target}"


def quarantined_seconds(facts: FileFacts) -> float:
    """When a file in quarantine was moved there, seconds since 1970; its mtime where unknown."""
    match = _NAME.fullmatch(facts.path.rpartition("/")[2])
    if match:
        try:
            return parse_time(match[1])
        except ValueError:
            pass  # digits that are no date: not a name of ours
    return facts.mtime_ns / 1e9
