"""A run file as it is read: its Outcomes, its summary, and whether somebody still writes it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.quantity import format_time
from vcache_cli.store.files import READ_FLAGS
from vcache_cli.store.run_id import is_run_id, run_id_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Final

__all__ = ["RUN_SUFFIX", "Run", "run_at"]

RUN_SUFFIX: Final = ".jsonl"
_TAIL_BYTES: Final = 65_536
_MAX_LINE_BYTES: Final = 16 * 1024**2
"""Far more than any line that a run writes: anyone may have made the file, or a disk damaged it."""
_SUMMARY_FIELDS: Final[Mapping[str, type]] = {
    **dict.fromkeys(("target", "stage", "model"), str),
    **dict.fromkeys(("items", "bytes", "seconds"), dict),
    "interrupted": bool,
}
"""What documents take of a summary, and of which type: anyone may have written the file."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run file, live or ended."""

    id: str
    path: Path
    started_seconds: float
    """Since 1970."""
    live: bool
    """A process holds it open."""
    summary: Mapping[str, Any] | None
    """The last line; None where the run was killed or is live."""

    def outcomes(self) -> Iterator[dict[str, Any]]:
        """The lines of Outcomes, in the order in which items ended; a torn line is left out.

        What follows a line longer than a run writes is not read.
        """
        with open(self.path, "rb") as lines:
            while line := lines.readline(_MAX_LINE_BYTES):
                if len(line) == _MAX_LINE_BYTES:
                    return  # no log goes on like this
                value = _parse(line)
                if value is not None and "summary" not in value:
                    yield value

    def as_json(self) -> dict[str, Any]:
        """The field ``last_run`` of ``vcache.stats/1``."""
        summary = self.summary or {}
        known = {
            name: summary[name]
            for name, kind in _SUMMARY_FIELDS.items()
            if name in summary and _is_like(summary[name], kind)
        }
        return {
            "id": self.id,
            "started": format_time(self.started_seconds),
            "live": self.live,
            "complete": self.summary is not None,
            **known,
        }


def _is_like(value: object, kind: type) -> bool:
    """A value of that type; a dict is one of numbers."""
    if isinstance(value, dict):
        return kind is dict and all(type(each) in {int, float} for each in value.values())
    return type(value) is kind


def run_at(path: Path) -> Run | None:
    """The run whose file is at `path`, by whatever name; None where no file can be read there.

    One by another name than a store gives it began when it was last written.
    """
    stem = path.name.removesuffix(RUN_SUFFIX)
    try:
        fd = os.open(path, READ_FLAGS)
    except (OSError, ValueError):
        return None
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            return None
        started = run_id_seconds(stem) if is_run_id(stem) else facts.st_mtime
        return Run(stem, path, started, _is_live(fd), _summary(fd))
    except (OSError, ValueError):
        return None
    finally:
        os.close(fd)


def _is_live(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in {errno.EAGAIN, errno.EACCES}
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False


def _summary(fd: int) -> Mapping[str, Any] | None:
    """The last line, where it is whole and a summary."""
    size, length = os.fstat(fd).st_size, _TAIL_BYTES
    while True:
        tail = os.pread(fd, min(length, size), max(0, size - length))
        if b"\n" in tail[:-1] or length >= size:
            break
        if length >= _MAX_LINE_BYTES:
            return None
        length *= 4  # a summary lists up to a thousand failures
    if not tail.endswith(b"\n"):
        return None
    value = _parse(tail[:-1].rpartition(b"\n")[2])
    summary = value.get("summary") if value else None
    return summary if isinstance(summary, dict) else None


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
