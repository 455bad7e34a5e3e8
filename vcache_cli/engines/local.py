"""Threads of this process, with a bounded number of inputs in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["ThreadEngine", "ThreadSession"]

In = TypeVar("In")
Out = TypeVar("Out")


class ThreadSession(Generic[In, Out]):
    """Work under way on a thread pool."""

    def __init__(self, pool: ThreadPoolExecutor, work: Callable[[In], Out], depth: int) -> None:
        self._pool = pool
        self._work = work
        self._depth = depth
        self._futures: set[Future[Out]] = set()

    @property
    def full(self) -> bool:
        """True where `depth` inputs are in flight."""
        return len(self._futures) >= self._depth

    @property
    def pending(self) -> int:
        """Inputs whose results were not taken yet."""
        return len(self._futures)

    def submit(self, value: In) -> None:
        """Start the work on one input."""
        self._futures.add(self._pool.submit(self._work, value))

    def take(self, *, wait: bool) -> list[Out]:
        """Results that are there; with `wait`, at least one while any is pending."""
        done = {future for future in self._futures if future.done()}
        if wait and not done and self._futures:
            done = _first_done(self._futures)
        self._futures -= done
        return [future.result() for future in done]


def _first_done(futures: set[Future[Out]]) -> set[Future[Out]]:
    return set(wait(futures, return_when=FIRST_COMPLETED).done)


@dataclass(frozen=True, slots=True)
class ThreadEngine:
    """A pool of threads.

    Args:
        workers: threads, at least 1.
        ahead: inputs queued beyond those being worked on, so that no thread waits for the caller.
    """

    workers: int
    ahead: int = 2

    @contextmanager
    def session(self, work: Callable[[In], Out]) -> Iterator[ThreadSession[In, Out]]:
        """Start the threads; on leaving, what has not started is dropped and the rest awaited."""
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="vcache")
        try:
            yield ThreadSession(pool, work, self.workers + self.ahead)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
