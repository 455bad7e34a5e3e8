"""Run files: one JSON line per Outcome, the summary last, locked while the run is live."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import secrets
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import UsageError
from vcache_cli.outcome import Status
from vcache_cli.quantity import format_time, parse_time
from vcache_cli.store.create import write_meta
from vcache_cli.store.files import (
    READ_FLAGS,
    TEMP_FLAGS,
    OsFiles,
    explained,
    write_all,
)
from vcache_cli.store.meta import vcache_dir
from vcache_cli.store.own import in_place, own_folder
from vcache_cli.store.owners import is_planted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Final, Self

    from vcache_cli.outcome import Outcome
    from vcache_cli.store.meta import StoreRoot

__all__ = ["Run", "RunLog", "last_run", "list_runs", "live_keys", "read_run", "runs_dir"]

_NAME: Final = re.compile(r"(\d{8}T\d{6}Z)-[0-9a-f]{8}")
_SUFFIX: Final = ".jsonl"
_TAIL_BYTES: Final = 65_536
_BLOCK_LINES: Final = 256
_FLUSH_SECONDS: Final = 1.0
_FILES: Final = OsFiles()
_SUMMARY_FIELDS: Final[Mapping[str, type]] = {
    **dict.fromkeys(("target", "stage", "model"), str),
    **dict.fromkeys(("items", "bytes", "seconds"), dict),
    "interrupted": bool,
}
"""What documents take of a summary, and of which type: anyone may have written the file."""


def runs_dir(root: StoreRoot) -> Path:
    """Where run files lie."""
    return vcache_dir(root.path) / "runs"


class RunLog:
    """The file of a run in progress. One thread; losing it loses a log, never an entry.

    Args:
        root: a store that can be written.
        now: seconds since 1970.

    Raises:
        AccessError, StoreFullError: the file cannot be made.
        NotAStoreError: something else lies in the place of a folder of ours.
    """

    def __init__(self, root: StoreRoot, *, now: float | None = None) -> None:
        moment = format_time(time.time() if now is None else now)
        stamp = moment.replace("-", "").replace(":", "")
        self.run_id = f"{stamp}-{secrets.token_hex(4)}"
        """Names the run in documents."""
        self._lines: list[str] = []
        self._clock = time.monotonic
        self._flushed = float("-inf")
        self.failure: str | None = None
        """Why the log ends early; None while it is whole."""
        self.path = runs_dir(root) / f"{self.run_id}{_SUFFIX}"
        with explained(_FILES, os.fspath(root.path)):
            self._fd = _open_log(root, self.path.name)

    def __enter__(self) -> Self:
        """The log itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; without `finish` the run reads as interrupted."""
        self.close()

    def append(self, outcome: Outcome) -> None:
        """Add the line of one Outcome; nothing once the disk refused one (see `failure`).

        Lines of items that were there before wait for others, for less than a second where more
        items come: who is killed meanwhile has lost nothing that would be done again.
        """
        self._lines.append(outcome.as_line())
        now = self._clock()
        waits = outcome.status is Status.PRESENT and now - self._flushed < _FLUSH_SECONDS
        if not waits or len(self._lines) >= _BLOCK_LINES:
            self._flush(now)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Add the last line and close."""
        self._lines.append(json.dumps({"summary": dict(summary)}, separators=(",", ":")))
        self.close()

    def close(self) -> None:
        """The run is not live any more."""
        if self._fd >= 0:
            self._flush(self._clock())
            os.close(self._fd)
            self._fd = -1

    def _flush(self, now: float) -> None:
        lines, self._lines, self._flushed = self._lines, [], now
        if self.failure is not None or not lines:
            return
        try:
            write_all(_FILES, self._fd, ("\n".join(lines) + "\n").encode("ascii"))
        except OSError as error:
            self.failure = error.strerror or str(error)


def _open_log(root: StoreRoot, name: str) -> int:
    flags = (TEMP_FLAGS & ~os.O_WRONLY) | os.O_RDWR | os.O_APPEND
    if not vcache_dir(root.path).is_dir():
        write_meta(root.path, root.meta)
    with own_folder(root, "runs") as folder, in_place(str(runs_dir(root) / name), "no file"):
        fd = os.open(name, flags, 0o600, dir_fd=folder)
    os.fchmod(fd, root.meta.modes.lock)
    with suppress(OSError):  # a filesystem without locks: the run just never looks live
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd


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
        """The lines of Outcomes, in the order in which items ended; a torn line is left out."""
        with open(self.path, "rb") as lines:
            for line in lines:
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


def list_runs(root: StoreRoot) -> list[Run]:
    """Every run that left a file, oldest first; files by other names are none."""
    names = sorted(_names(root))
    stems = [name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)]
    runs = [_run(runs_dir(root) / f"{stem}{_SUFFIX}", stem) for stem in stems]
    return [run for run in runs if run is not None]


def _names(root: StoreRoot) -> list[str]:
    if is_planted(root.path):
        return []
    try:
        return os.listdir(runs_dir(root))
    except OSError:
        return []


def last_run(root: StoreRoot) -> Run | None:
    """The run that began last; None where there was none."""
    for name in sorted(_names(root), reverse=True):
        run = _run(runs_dir(root) / name, name.removesuffix(_SUFFIX))
        if run is not None and name.endswith(_SUFFIX):
            return run
    return None


def read_run(root: StoreRoot, run_id: str) -> Run:
    """The run of that id, or of ``last``.

    Raises:
        UsageError: there is none.
    """
    found = last_run(root) if run_id == "last" else None
    if found is None and _NAME.fullmatch(run_id):
        found = _run(runs_dir(root) / f"{run_id}{_SUFFIX}", run_id)
    if found is None:
        latest = [run.id for run in list_runs(root)[-3:]]
        raise UsageError(
            f"no run `{run_id}` in {root.path}; the latest: {', '.join(latest) or 'none'}"
        )
    return found


def live_keys(root: StoreRoot) -> set[str]:
    """Keys that runs in progress, in this process too, have met so far."""
    keys: set[str] = set()
    for run in list_runs(root):
        if run.live:
            with suppress(OSError):
                keys.update(key for line in run.outcomes() if type(key := line.get("key")) is str)
    return keys


def _run(path: Path, stem: str) -> Run | None:
    match = _NAME.fullmatch(stem)
    if match is None:
        return None
    try:
        started, fd = parse_time(match[1]), os.open(path, READ_FLAGS)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return Run(stem, path, started, _is_live(fd), _summary(fd))
    except OSError:
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
