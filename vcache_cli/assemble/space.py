"""Makes room while a run goes on: `--on-full prune`."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from vcache_cli.assemble.targets import load_target
from vcache_cli.errors import LockBusyError, RefusedError, StoreFullError
from vcache_cli.store.index import open_index

if TYPE_CHECKING:
    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.entry import Entry
    from vcache_cli.store import Budget, DiskStore, EntryWriter

__all__ = ["PruningWriter", "refuse_pruning"]

_LOW_WATER: Final = 0.9
"""Share of what the store holds that a prune leaves, so that it is not needed for each entry."""
_HEADER_BYTES: Final = 4096
"""Room set aside for an entry's header."""


def refuse_pruning(options: WarmOptions) -> None:
    """Refuse `--on-full prune` where a server's own entries lie beside ours.

    Raises:
        RefusedError: that is so.
        UsageError, ModelError: see `load_target`.
    """
    if options.on_full == "prune" and not load_target(options.target).layout.checksum_required:
        raise RefusedError(
            f"--on-full prune: a store of target `{options.target}` holds what its server wrote, "
            "and that would go unseen",
            hint="run `vcache prune` before: it shows what would go, and asks",
        )


@dataclass(slots=True)
class PruningWriter:
    """Hands entries to the writers; one that finds no room gets a prune and a second try.

    What this run has met, and what is younger than the grace, is never pruned for it.
    """

    store: DiskStore
    writer: EntryWriter
    budget: Budget | None
    max_size_bytes: int | None
    grace_seconds: float
    pruned_entries: int = 0
    pruned_bytes: int = 0
    _pruning: threading.Lock = field(default_factory=threading.Lock)

    def submit(self, entry: Entry) -> Future[int]:
        """As `EntryWriter.submit`."""
        done: Future[int] = Future()
        done.set_running_or_notify_cancel()
        self.writer.submit(entry).add_done_callback(partial(self._relay, entry, done))
        return done

    def _relay(self, entry: Entry, done: Future[int], first: Future[int]) -> None:
        """Runs in the writer's thread."""
        error = first.exception()
        if isinstance(error, StoreFullError):
            self._try_again(entry, done)
        elif error is not None:
            done.set_exception(error)
        else:
            done.set_result(first.result())

    def _try_again(self, entry: Entry, done: Future[int]) -> None:
        try:
            with self._pruning:
                done.set_result(self._put_with_room(entry))
        except BaseException as error:  # noqa: BLE001  relayed to whoever waits, who raises it
            done.set_exception(error)

    def _put_with_room(self, entry: Entry) -> int:
        try:
            return self._put(entry)  # another thread may have made room meanwhile
        except StoreFullError as error:
            if not self._prune():
                raise StoreFullError(
                    f"{error.message}, and `--on-full prune` may remove nothing: what is there is "
                    f"younger than the grace of {self.grace_seconds:g} s, or used by this run",
                    hint="wait, raise the limit, or set a shorter grace",
                ) from error
        return self._put(entry)

    def _put(self, entry: Entry) -> int:
        if self.budget is None:
            return self.store.put(entry)
        size_bytes = entry.file_bytes + _HEADER_BYTES
        self.budget.reserve(size_bytes)
        written_bytes = 0
        try:
            written_bytes = self.store.put(entry)
        finally:
            self.budget.settle(size_bytes, written_bytes=written_bytes)
        return written_bytes

    def _prune(self) -> int:
        """Bytes freed by one prune; 0 where another process prunes, or nothing may go."""
        from vcache_cli.store.prune import PruneScope, plan_prune

        root = self.store.root
        with open_index(root) as index:
            index.refresh()
            held_bytes = index.totals().logical_bytes
        wanted_bytes = min(held_bytes, self.max_size_bytes or held_bytes)
        scope = PruneScope(max_size_bytes=int(wanted_bytes * _LOW_WATER))
        try:
            result = plan_prune(root, scope, grace_seconds=self.grace_seconds).execute()
        except LockBusyError:
            return 0
        self.pruned_entries += sum(each.is_entry for each in result.removed)
        self.pruned_bytes += result.removed_bytes
        if self.budget:
            self.budget.freed(result.removed_bytes)
        return result.removed_bytes
