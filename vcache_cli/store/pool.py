"""Several entries on their way to the disk at once: a bounded queue before a few threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Self

from vcache_cli.entry import Entry
from vcache_cli.errors import VcacheError
from vcache_cli.store.budget import Budget
from vcache_cli.store.writer import Packed, Publisher, pack_entry

__all__ = ["EntryWriter"]


class _Gate:
    """Lets entries in while they are few and small enough."""

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._free = threading.Condition()
        self._max_entries, self._max_bytes = max_entries, max_bytes
        self._entries = self._bytes = 0

    def enter(self, size_bytes: int) -> None:
        with self._free:
            self._free.wait_for(lambda: self._fits(size_bytes))
            self._entries += 1
            self._bytes += size_bytes

    def leave(self, size_bytes: int) -> None:
        with self._free:
            self._entries -= 1
            self._bytes -= size_bytes
            self._free.notify_all()

    def _fits(self, size_bytes: int) -> bool:
        if not self._entries:  # one that is larger than the whole bound goes alone
            return True
        return self._entries < self._max_entries and self._bytes + size_bytes <= self._max_bytes


class EntryWriter:
    """Writes entries with full durability, several at a time. `submit` from any thread.

    One fsync per touched directory serves all entries that were published before it began.

    Args:
        publisher: where to.
        threads: how many entries are written at once.
        budget: asked before each write; None for no limits.
        max_queued: entries that wait or are being written; `submit` blocks beyond.
        max_queued_bytes: the same in bytes of tensors.
    """

    def __init__(
        self,
        publisher: Publisher,
        *,
        threads: int = 4,
        budget: Budget | None = None,
        max_queued: int = 64,
        max_queued_bytes: int = 256 * 1024 * 1024,
    ) -> None:
        self._publisher = publisher
        self._budget = budget
        self._gate = _Gate(max_queued, max_queued_bytes)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="vcache-writer")
        self._lock = threading.Lock()
        self._published: list[tuple[tuple[str, ...], Future[int], int]] = []
        self._syncing = False

    def submit(self, entry: Entry) -> Future[int]:
        """Queue an entry; waits while the queue is full.

        The future gives the bytes written once the entry is durable, or raises what
        `DiskStore.put` raises. It cannot be cancelled.
        """
        done: Future[int] = Future()
        done.set_running_or_notify_cancel()
        self._gate.enter(entry.size_bytes)
        done.add_done_callback(lambda _: self._gate.leave(entry.size_bytes))
        self._pool.submit(self._write, entry, done).add_done_callback(partial(_relay, done))
        return done

    def close(self) -> None:
        """Wait until all that was submitted is durable or has failed."""
        self._pool.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Finished work is kept, also when the run is interrupted."""
        self.close()

    def _write(self, entry: Entry, done: Future[int]) -> None:
        packed = pack_entry(entry, self._publisher.root.layout)
        with self._reserved(packed):
            directories = self._publisher.publish(packed)
        with self._lock:
            self._published.append((directories, done, packed.size_bytes))
            if self._syncing:  # whoever syncs will see it; this thread goes on writing
                return
            self._syncing = True
        while self._sync_published():
            pass

    def _sync_published(self) -> bool:
        with self._lock:
            batch, self._published = self._published, []
            self._syncing = bool(batch)
        failure = self._sync({name for directories, _, _ in batch for name in directories})
        for _, done, size_bytes in batch:
            if failure is None:
                done.set_result(size_bytes)
            else:
                done.set_exception(failure)
        return bool(batch)

    def _sync(self, directories: set[str]) -> OSError | VcacheError | None:
        try:
            self._publisher.sync(sorted(directories))
        except (OSError, VcacheError) as error:
            return error  # relayed to everyone whose name it leaves in doubt
        return None

    @contextlib.contextmanager
    def _reserved(self, packed: Packed) -> Iterator[None]:
        """Count the bytes as in flight, and afterwards as used or not."""
        if self._budget is None:
            yield
            return
        self._budget.reserve(packed.size_bytes)
        written_bytes = replaced_bytes = 0
        try:
            before_bytes = self._publisher.present_bytes(packed)
            yield
            written_bytes, replaced_bytes = packed.size_bytes, before_bytes
        finally:
            self._budget.settle(
                packed.size_bytes, written_bytes=written_bytes, replaced_bytes=replaced_bytes
            )


def _relay(done: Future[int], written: Future[None]) -> None:
    error = written.exception()
    if error is not None:
        done.set_exception(error)
