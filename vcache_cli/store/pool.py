"""Several entries on their way to the disk at once: a bounded queue before a few threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Self

from vcache_cli.entry import Entry
from vcache_cli.store.budget import Budget
from vcache_cli.store.writer import Packed, Publisher

__all__ = ["EntryWriter", "Gate"]


class Gate:
    """Lets entries in while they are few and small enough. Any thread."""

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._free = threading.Condition()
        self._max_entries, self._max_bytes = max_entries, max_bytes
        self._entries = self._bytes = 0

    def enter(self, size_bytes: int) -> None:
        """Wait until there is room for an entry of that size."""
        with self._free:
            self._free.wait_for(lambda: self._fits(size_bytes))
            self._entries += 1
            self._bytes += size_bytes

    def leave(self, size_bytes: int) -> None:
        """Give its room back."""
        with self._free:
            self._entries -= 1
            self._bytes -= size_bytes
            self._free.notify_all()

    def _fits(self, size_bytes: int) -> bool:
        if not self._entries:  # one that is larger than the whole bound goes alone
            return True
        return self._entries < self._max_entries and self._bytes + size_bytes <= self._max_bytes


class _GroupSync:
    """Syncs directories; one sync serves all who asked before it began."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = {}
        self._next: dict[str, Future[None]] = {}

    def sync(self, directory: str) -> None:
        with self._lock:
            turn = self._turns.setdefault(directory, threading.Lock())
            waited_for = self._next.get(directory)
            mine: Future[None] = Future()
            if waited_for is None:
                self._next[directory] = mine
        if waited_for is not None:
            waited_for.result()
            return
        with turn:
            with self._lock:
                del self._next[directory]  # who asks from here on needs another sync
            self._run(directory, mine)

    def _run(self, directory: str, done: Future[None]) -> None:
        try:
            self._publisher.sync_one(directory)
        except BaseException as error:
            done.set_exception(error)
            raise
        done.set_result(None)


class EntryWriter:
    """Writes entries with full durability, several at a time. `submit` from any thread.

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
        self._gate = Gate(max_queued, max_queued_bytes)
        self._group = _GroupSync(publisher)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="vcache-writer")

    def submit(self, entry: Entry) -> Future[int]:
        """Queue an entry; waits while the queue is full.

        The future gives the bytes written once the entry is durable, or raises what
        `DiskStore.put` raises.
        """
        return self._queue(entry.file_bytes, partial(self._publisher.pack, entry))

    def submit_packed(self, packed: Packed) -> Future[int]:
        """As `submit`, of a file's bytes as they are; the caller has checked them."""
        return self._queue(packed.size_bytes, lambda: packed)

    def _queue(self, size_bytes: int, pack: Callable[[], Packed]) -> Future[int]:
        self._gate.enter(size_bytes)
        done = self._pool.submit(self._write, pack)
        done.add_done_callback(lambda _: self._gate.leave(size_bytes))
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

    def _write(self, pack: Callable[[], Packed]) -> int:
        packed = pack()
        with self._reserved(packed):
            directories = self._publisher.publish(packed)
        for directory in directories:
            self._group.sync(directory)
        self._publisher.confirm(directories)
        return packed.size_bytes

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
