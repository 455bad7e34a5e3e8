"""A replay: iterated to its end, summed up."""

from __future__ import annotations

import time
from collections import defaultdict
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import NothingToDoError, VcacheError
from vcache_cli.outcome import Failure, Outcome, Status
from vcache_cli.replay.attempt import Attempt, Claims, Worker
from vcache_cli.replay.latency import Latencies, Timed
from vcache_cli.replay.pace import Pace
from vcache_cli.replay.send import STOPPED, Sender
from vcache_cli.replay.totals import Totals
from vcache_cli.replay.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vcache_cli.protocols import Source
    from vcache_cli.replay.address import Address
    from vcache_cli.replay.done import DoneFile
    from vcache_cli.replay.manner import Manner
    from vcache_cli.replay.wire import Exchange

__all__ = ["ReplayRun"]


class ReplayRun:
    """Sends a corpus: iterate it once, then ask for its summary.

    Args:
        source: the corpus.
        address: of the server.
        manner: how it is sent.
        done: what it was sent before.
        exchange: what sends; None is HTTP.
    """

    def __init__(
        self,
        source: Source,
        *,
        address: Address,
        manner: Manner,
        done: DoneFile,
        exchange: Exchange | None = None,
    ) -> None:
        self._source = source
        self._address = address
        self._manner = manner
        self._exchange = exchange or Wire(address, timeout_seconds=manner.timeout_seconds)
        self._pace = Pace(manner.rate)
        self._claims = Claims(done)
        sender = Sender(self._exchange, self._pace, address, manner)
        self._worker = Worker(sender, self._claims)
        self._failed: dict[str, Failure] = {}
        self._copies: defaultdict[str, list[Outcome]] = defaultdict(list)
        self._started = time.monotonic()
        self._error: VcacheError | None = None
        self._complete = False
        self.totals = Totals()
        self.latencies = Latencies(manner.measure)

    def __iter__(self) -> Iterator[Outcome]:
        """Each item's Outcome, as it is known; a sample is then sent again, if that was asked.

        Raises:
            ModelError: the server cannot be reached, or knows no such model.
            AccessError: it refuses the key, or wants one.
            RefusedError: it would have us go elsewhere, or its certificate is not trusted.
            NothingToDoError: the corpus is empty, or has nothing to send.
        """
        pool = ThreadPoolExecutor(self._manner.concurrency, thread_name_prefix="replay")
        try:
            for attempt in self._attempts(pool):
                for outcome in self._settled(attempt):
                    self.totals.add(outcome)
                    yield outcome
            if self._error:
                raise self._error
            self._refuse_nothing()
            self._measure(pool)
            self._complete = not self._pace.stopped
        finally:
            if not self._complete:
                self._pace.stop()
                self._exchange.abort()  # nothing is under way but where this ends unforeseen
            pool.shutdown(wait=True, cancel_futures=True)

    def stop(self) -> None:
        """Begin no further request; what is under way is finished. From any thread or a signal."""
        self._pace.stop()

    def give_up(self, error: VcacheError) -> None:
        """As `stop`, and end with `error`, the first one that is given."""
        self._error = self._error or error
        self._pace.stop()

    def summary(self) -> dict[str, Any]:
        """The fields of ``vcache.replay/1``: what has happened so far."""
        return {
            "server": self._address.url,
            "model": self._manner.model,
            **self.totals.as_json(time.monotonic() - self._started),
            "first_token": self.latencies.as_json(),
            "concurrency": self._manner.concurrency,
            "interrupted": not self._complete,
        }

    def _attempts(self, pool: ThreadPoolExecutor) -> Iterator[Attempt]:
        """One for each item that was begun; no more are in flight than can be sent at once."""
        items = iter(self._source.items())
        flying: set[Future[Attempt]] = set()
        ended = False
        while True:
            while not ended and len(flying) < self._manner.concurrency:
                item = None if self._pace.stopped else next(items, None)
                ended = item is None
                if item is not None:
                    flying.add(pool.submit(self._worker, item))
            if not flying:
                return
            found, flying = wait(flying, return_when=FIRST_COMPLETED)
            yield from (each.result() for each in found)

    def _settled(self, attempt: Attempt) -> Iterator[Outcome]:
        """The Outcomes that are known now: of the item, and of copies that waited for it."""
        outcome, sent = attempt
        digest = outcome.source_sha256 or ""
        if outcome.status is Status.COPY and self._claims.flies(digest):
            self._copies[digest].append(outcome)
            return
        if outcome.status is Status.COPY and (failure := self._failed.get(digest)):
            outcome = outcome._replace(status=Status.FAILED, failure=failure)
        if sent is not None:
            self._note(outcome, digest, sent.first_token_seconds)
            self.totals.requests += sent.requests
            self.totals.again += max(0, sent.requests - 1)
            if sent.verdict.ends:
                self.give_up(sent.verdict.ends)
        yield outcome
        for copy in self._copies.pop(digest, ()) if sent else ():
            shared = outcome.status if outcome.failure else Status.COPY
            yield copy._replace(status=shared, failure=outcome.failure)

    def _note(self, outcome: Outcome, digest: str, seconds: float | None) -> None:
        if outcome.failure:
            self._failed[digest] = outcome.failure
        else:
            self._failed.pop(digest, None)
        try:
            self._claims.settle(digest, sent=outcome.status is Status.STORED)
        except VcacheError as error:
            self.give_up(error)
        if seconds is not None:
            self.latencies.add(Timed(outcome.item, digest, seconds))

    def _refuse_nothing(self) -> None:
        skipped = self.totals.statuses[Status.SKIPPED]
        if 0 < skipped == self.totals.done and not self.totals.skips[STOPPED.kind]:
            raise NothingToDoError(
                f"none of {skipped} files found can be sent",
                hint="files are judged by their first bytes; --videos sends videos too",
            )

    def _measure(self, pool: ThreadPoolExecutor) -> None:
        """Send the sample again, as many at once as the first time."""
        again = [pool.submit(self._worker.again, each.item, each.digest) for each in self._sample]
        for timed, future in zip(self._sample, again, strict=True):
            seconds = future.result()
            if seconds is not None:
                self.latencies.pairs.append((timed.seconds, seconds))

    @property
    def _sample(self) -> list[Timed]:
        return self.latencies.sample
