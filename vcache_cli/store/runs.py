"""Run files: one JSON line per Outcome, the summary last, locked while the run is live."""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import UsageError
from vcache_cli.items import display_path
from vcache_cli.outcome import PresentFiles, Status, lines_of
from vcache_cli.store.create import write_meta
from vcache_cli.store.files import (
    TEMP_FLAGS,
    OsFiles,
    explained,
    write_all,
)
from vcache_cli.store.meta import vcache_dir
from vcache_cli.store.own import in_place, own_folder
from vcache_cli.store.owners import is_planted
from vcache_cli.store.run_file import RUN_SUFFIX, Run, run_at
from vcache_cli.store.run_id import is_run_id, new_run_id
from vcache_cli.store.run_retention import retire_logs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Final, Self

    from vcache_cli.outcome import Outcome
    from vcache_cli.store.meta import StoreRoot

__all__ = ["Run", "RunLog", "last_run", "list_runs", "live_keys", "read_run", "runs_dir"]

_BLOCK_LINES: Final = 256
_FLUSH_SECONDS: Final = 1.0
_FILES: Final = OsFiles()


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
        self.run_id = new_run_id(time.time() if now is None else now)
        """Names the run in documents."""
        self._root = root
        self._lines: list[str] = []
        self._clock = time.monotonic
        self._flushed = float("-inf")
        self.failure: str | None = None
        """Why the log ends early; None while it is whole."""
        self.path = runs_dir(root) / f"{self.run_id}{RUN_SUFFIX}"
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

    def append(self, outcomes: Sequence[Outcome]) -> None:
        """Add the lines of Outcomes; nothing once the disk refused one (see `failure`).

        Lines of items that were there before wait for others, for less than a second where more
        items come: who is killed meanwhile has lost nothing that would be done again.
        """
        self._lines += lines_of(outcomes)
        now = self._clock()
        waits = isinstance(outcomes, PresentFiles) or all(
            outcome.status is Status.PRESENT for outcome in outcomes
        )
        if not waits or now - self._flushed >= _FLUSH_SECONDS or len(self._lines) >= _BLOCK_LINES:
            self._flush(now)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Add the last line and close: the summary, and the folder that names are relative to.

        Logs of runs that ended long ago go (see `retire_logs`).
        """
        told = {**_place(), **summary}
        self._lines.append(json.dumps({"summary": told}, separators=(",", ":")))
        self.close()
        retire_logs(self._root)

    def close(self) -> None:
        """The run is not live any more."""
        if self._fd >= 0:
            self._flush(self._clock())
            fd, self._fd = self._fd, -1
            try:
                os.close(fd)
            except OSError as error:  # what was written may be lost: no more than a log
                self.failure = self.failure or error.strerror or str(error)

    def _flush(self, now: float) -> None:
        lines, self._lines, self._flushed = self._lines, [], now
        if self.failure is not None or not lines:
            return
        try:
            write_all(_FILES, self._fd, ("\n".join(lines) + "\n").encode("ascii"))
        except OSError as error:
            self.failure = error.strerror or str(error)


def _place() -> dict[str, str]:
    """The current folder as `cwd`; nothing where it was removed."""
    try:
        return {"cwd": display_path(os.getcwd())}
    except FileNotFoundError:
        return {}


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


def list_runs(root: StoreRoot) -> list[Run]:
    """Every run that left a file, oldest first; files by other names are none."""
    runs = [run_at(runs_dir(root) / name) for name in _names(root)]
    return [run for run in runs if run is not None]


def _names(root: StoreRoot) -> list[str]:
    """Names of run files, in the order in which the runs began."""
    if is_planted(root.path):
        return []
    try:
        names = os.listdir(runs_dir(root))
    except OSError:
        return []
    logs = [name for name in names if name.endswith(RUN_SUFFIX)]
    return sorted(name for name in logs if is_run_id(name.removesuffix(RUN_SUFFIX)))


def last_run(root: StoreRoot) -> Run | None:
    """The run that began last; None where there was none."""
    runs = (run_at(runs_dir(root) / name) for name in reversed(_names(root)))
    return next((run for run in runs if run is not None), None)


def read_run(root: StoreRoot, run_id: str) -> Run:
    """The run of that id, or of ``last``.

    Raises:
        UsageError: there is none.
    """
    found = last_run(root) if run_id == "last" else None
    if found is None and is_run_id(run_id):
        found = run_at(runs_dir(root) / f"{run_id}{RUN_SUFFIX}")
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
                for line in run.outcomes():
                    keys.update(key for key in _keys_in(line) if type(key) is str)
    return keys


def _keys_in(line: Mapping[str, Any]) -> list[Any]:
    """Of the one entry that a line tells of, or of the several of a clip."""
    several = line.get("keys")
    return several if type(several) is list else [line.get("key")]
