"""Looking for damage: a report of everything that is wrong, and on request a repair."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from vcache_cli.errors import UsageError
from vcache_cli.store.empties import empties_of
from vcache_cli.store.index import open_index
from vcache_cli.store.locks import gc_lock
from vcache_cli.store.own import own_folder
from vcache_cli.store.quarantine import move_to_quarantine
from vcache_cli.store.scan import scan_store
from vcache_cli.store.verify_beside import (
    known_files,
    links_in_place,
    server_problems,
    strangers,
)
from vcache_cli.store.verify_entry import Checked, EntryChecker, Level, Problem
from vcache_cli.store.verify_report import VerifyOptions, VerifyReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Final

    from vcache_cli.store.index import Index
    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.rows import FileFacts

__all__ = ["Level", "Problem", "VerifyOptions", "VerifyReport", "verify_store"]

_CURSOR: Final = "verify cursor "
_UNREADABLE: Final = frozenset(os.strerror(each) for each in (errno.EIO, errno.EBADMSG))
"""What says that the file itself cannot be read, however often that is tried."""


def verify_store(
    root: StoreRoot,
    options: VerifyOptions | None = None,
    *,
    now: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    on_progress: Callable[[int, int], None] | None = None,
) -> VerifyReport:
    """Check every entry, or a part of them; works on a store that is read-only.

    Args:
        root: the store.
        options: data level of everything where not given.
        now: seconds since 1970, for the names in quarantine.
        clock: seconds; what `max_duration_seconds` is measured by.
        on_progress: called with (entries checked, entries to check).

    Raises:
        UsageError: a level without what it needs.
        LockBusyError: a repair while another process prunes or repairs.
        AccessError: a repair of a store that is read-only.
        NotAStoreError: a repair where something else lies in the place of the quarantine.
    """
    chosen = options or VerifyOptions()
    if (chosen.level == "recompute") != (chosen.recompute is not None):
        raise UsageError("level `recompute`, and it alone, needs what computes anew")
    with ExitStack() as held:
        if chosen.repair:
            held.enter_context(gc_lock(root))
            held.enter_context(own_folder(root, "quarantine"))  # before all that takes long
        index = held.enter_context(open_index(root))
        run = _Verify(root, chosen, index, time.time() if now is None else now)
        return run.report(clock, on_progress or (lambda _done, _total: None))


class _Verify:
    """One verify. One thread, which hands files to others to be read."""

    def __init__(self, root: StoreRoot, options: VerifyOptions, index: Index, now: float) -> None:
        self._root, self._options, self._index, self._now = root, options, index, now
        self._checker = EntryChecker(root, options.level)
        index.refresh()
        self._scan = scan_store(root)
        self._known = known_files(index)

    def report(
        self, clock: Callable[[], float], on_progress: Callable[[int, int], None]
    ) -> VerifyReport:
        limit = self._options.max_duration_seconds
        deadline = None if limit is None else clock() + limit
        waiting = self._chosen()
        done: list[Checked] = []
        for checked in self._check_all(waiting):
            done.append(checked)
            on_progress(len(done), len(waiting))
            if deadline is not None and clock() >= deadline:
                break
        complete = len(done) == len(waiting)
        cursor = None if complete or not done else done[-1].facts.path
        if limit is not None:
            self._index.set_note(_CURSOR + self._options.level, cursor)
        seen = [checked for checked in done if not checked.vanished]
        sound = [checked for checked in seen if checked.is_ok]
        bare = sum(not checked.has_checksum for checked in sound)
        beside = self._beside(complete=complete)
        return VerifyReport(
            level=self._options.level,
            checked=len(seen),
            ok=len(sound),
            bytes_read=sum(checked.bytes_read for checked in seen),
            problems=(*self._repaired(seen), *beside, *self._drift()),
            complete=complete,
            cursor=cursor,
            without_checksum=bare,
            structure_only=bool(bare) and bare == len(sound),
            empty_directories=empties_of(self._root, self._scan),
        )

    def _beside(self, *, complete: bool) -> list[Problem]:
        told = []
        if complete:
            reads_headers = self._options.level != "stat"
            told = server_problems(self._root, self._scan, self._now, reads_headers=reads_headers)
        return [*told, *strangers(self._root, self._scan, {problem.path for problem in told})]

    def _chosen(self) -> list[FileFacts]:
        """Entries to check, in the order of their paths."""
        begin = self._options.cursor
        if begin is None and self._options.max_duration_seconds is not None:
            begin = self._index.note(_CURSOR + self._options.level)
        entries = [file for file in self._scan.entries if begin is None or file.path > begin]
        if self._options.subset >= 1:
            return entries
        drawn = [file for file in entries if self._lot(file) < self._options.subset * 2**64]
        return drawn or sorted(entries, key=self._lot)[:1]  # to check nothing would look well

    def _lot(self, file: FileFacts) -> int:
        digest = hashlib.sha256(f"{self._options.seed}\0{file.key}".encode()).digest()
        return int.from_bytes(digest[:8])

    def _check_all(self, files: Iterable[FileFacts]) -> Iterator[Checked]:
        """Checks in the order of `files`, a few at a time where data is read."""
        if self._options.level in {"stat", "header"} or self._options.threads == 1:
            yield from map(self._check, files)
            return
        running: deque[Future[Checked]] = deque()
        with ThreadPoolExecutor(self._options.threads, "vcache-verify") as pool:
            try:
                for file in files:
                    running.append(pool.submit(self._check, file))
                    if len(running) > 2 * self._options.threads:
                        yield running.popleft().result()
                while running:
                    yield running.popleft().result()
            finally:  # time ran out: what has not begun does not begin
                for future in running:
                    future.cancel()

    def _check(self, file: FileFacts) -> Checked:
        size, inode = self._known.get(file.key or "", (None, None))
        known = size if inode == file.inode else None
        checked = self._checker.check(file, known)
        again = self._options.recompute
        if again is None or not checked.is_ok:
            return checked
        return replace(checked, problems=(*checked.problems, *again(file)))

    def _repaired(self, checks: Iterable[Checked]) -> list[Problem]:
        problems: list[Problem] = []
        for checked in checks:
            damage = [problem for problem in checked.problems if problem.is_repairable]
            action = "none"
            if damage and self._options.repair:
                action = self._move(checked.facts, damage[0])
            problems += [
                replace(problem, action=action) if problem.is_repairable else problem
                for problem in checked.problems
            ]
        return [*problems, *self._links()]

    def _links(self) -> list[Problem]:
        """Links where entries or shards belong: no reader follows, and no writer makes them."""
        problems = []
        for file, found in links_in_place(self._root, self._scan):
            action = self._move(file, found) if self._options.repair else "none"
            problems.append(replace(found, action=action))
        return problems

    def _move(self, facts: FileFacts, problem: Problem) -> str:
        if problem.kind == "io_error" and problem.actual not in _UNREADABLE:
            return "none"  # permissions, memory or descriptors: the file may be sound
        try:
            moved = move_to_quarantine(self._root, facts, problem.kind, self._now)
        except OSError as error:
            return f"failed: {error.strerror}"
        if problem.key is not None:
            self._index.remove(problem.key)
        return "gone" if moved is None else "quarantined"

    def _drift(self) -> list[Problem]:
        """Where the index is wrong though it was refreshed; it is disposable, so it is corrected.

        Entries that came or went since the scan are no drift: a second refresh has seen them.
        """
        truth = {file.key or "" for file in self._scan.entries}
        if truth != self._known.keys():
            self._index.refresh()
            self._known = known_files(self._index)
        wrong = {key: self._root.layout.path_of(key) for key in truth ^ self._known.keys()}
        found = [
            Problem(path, "index_extra" if key in self._known else "index_missing", key)
            for key, path in sorted(wrong.items())
            if os.path.lexists(self._root.path / path) != (key in self._known)
        ]
        if found:
            self._index.forget_directories({each.path.rpartition("/")[0] for each in found})
            self._index.refresh()
        return [replace(problem, action="reindexed") for problem in found]
