"""Which run files go: a store that is warmed every day shall not fill with its logs."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from vcache_cli.errors import VcacheError
from vcache_cli.store.files import READ_FLAGS
from vcache_cli.store.own import own_folder
from vcache_cli.store.owners import is_planted
from vcache_cli.store.run_file import RUN_SUFFIX
from vcache_cli.store.run_id import is_run_id

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from vcache_cli.store.meta import StoreRoot

__all__ = ["KEPT_BYTES", "KEPT_RUNS", "KEPT_SECONDS", "LogFile", "expired_logs", "retire_logs"]

KEPT_RUNS: Final = 20
"""So many of the newest stay, whatever their age and size."""
KEPT_SECONDS: Final = 30 * 86_400.0
"""Others go once nothing was written to them for so long,"""
KEPT_BYTES: Final = 256 * 1024**2
"""and, oldest first, while all of them together are larger than this."""


class LogFile(NamedTuple):
    """A run file, as its directory tells."""

    name: str
    written_seconds: float
    """Since 1970."""
    size_bytes: int


def expired_logs(logs: Sequence[LogFile], now: float) -> list[LogFile]:
    """Those that may go, oldest first. Pure.

    >>> expired_logs([LogFile("new", 9e9, 1)], 9e9)
    []
    """
    ordered = sorted(logs, key=lambda log: (log.name[:16], log.written_seconds, log.name))
    total = sum(log.size_bytes for log in ordered)
    expired = []
    for log in ordered[:-KEPT_RUNS]:
        if now - log.written_seconds > KEPT_SECONDS or total > KEPT_BYTES:
            expired.append(log)
            total -= log.size_bytes
    return expired


def retire_logs(root: StoreRoot, *, now: float | None = None) -> list[str]:
    """Remove the run files that may go and that nobody holds open; their names.

    Best effort: what cannot be removed stays for the next run. Files by other names, links and
    pipes are nobody's logs and stay.
    """
    removed: list[str] = []
    if is_planted(root.path):
        return removed
    with suppress(OSError, VcacheError), own_folder(root, "runs") as folder:
        for log in expired_logs(_logs(folder), time.time() if now is None else now):
            with suppress(OSError):
                if _unlink_ended(folder, log.name):
                    removed.append(log.name)
    return removed


def _logs(folder: int) -> list[LogFile]:
    logs = []
    with os.scandir(folder) as listing:
        for found in listing:
            stem = found.name.removesuffix(RUN_SUFFIX)
            if stem == found.name or not is_run_id(stem):
                continue
            facts = found.stat(follow_symlinks=False)
            if stat.S_ISREG(facts.st_mode):
                logs.append(LogFile(found.name, facts.st_mtime, facts.st_size))
    return logs


def _unlink_ended(folder: int, name: str) -> bool:
    """False where a run still writes it; where there are no locks, an error."""
    fd = os.open(name, READ_FLAGS, dir_fd=folder)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(name, dir_fd=folder)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True
