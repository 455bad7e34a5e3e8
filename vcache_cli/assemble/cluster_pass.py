"""The driver's side of a warm on a cluster: items go out, Outcomes come back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final

from vcache_cli.assemble.warm_pass import WRITER_THREADS
from vcache_cli.engines.ray_cluster import parse_resources
from vcache_cli.engines.ray_engine import RayEngine
from vcache_cli.errors import VcacheError
from vcache_cli.outcome import Outcome, Status
from vcache_cli.remote import UPLOADS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vcache_cli.assemble.bucket_store import BucketDesk
    from vcache_cli.assemble.cluster import ShardWork
    from vcache_cli.assemble.shard_flow import Told
    from vcache_cli.engines.ray_engine import RaySession
    from vcache_cli.items import WarmItem
    from vcache_cli.remote import RemoteEntry

__all__ = ["ClusterPass", "Firsts", "open_cluster"]

_MOST_KEYS: Final = 262_144
"""Stored keys that are remembered, to tell a second one from the first."""


@dataclass(slots=True)
class Firsts:
    """Calls one Outcome of each key `stored`, and those after it copies."""

    _stored: dict[tuple[str, ...], None] = field(default_factory=dict)

    def settle(self, outcome: Outcome) -> Outcome:
        """The Outcome as one run over all items would tell it."""
        keys = outcome.entry_keys
        if outcome.status is not Status.STORED or not keys:
            return outcome
        if keys in self._stored:
            return outcome._replace(status=Status.COPY)
        self._stored[keys] = None
        if len(self._stored) > _MOST_KEYS:
            del self._stored[next(iter(self._stored))]
        return outcome


def _ignore(_entries: Iterable[RemoteEntry]) -> None:
    """Of a store that is a folder: there are none."""


class ClusterPass:
    """A run over a corpus on the workers of a session; as `WarmPass`, seen from outside."""

    def __init__(
        self,
        session: RaySession[WarmItem, Told],
        *,
        lanes: dict[str, int],
        desk: BucketDesk | None = None,
        uploaded: Callable[[Iterable[RemoteEntry]], None] = _ignore,
    ) -> None:
        self._session = session
        self._desk, self._uploaded = desk, uploaded
        self._firsts = Firsts()
        self._stopping = False
        self.lanes = lanes
        """How many items at once are in each part of the run, on all workers together."""
        self.discover_seconds = 0.0
        """Time spent waiting for the walk."""
        self.error: VcacheError | None = None
        """What ended the run early."""

    def stop(self) -> None:
        """Take no further item; what is in flight is finished."""
        self._stopping = True
        self._session.stop()

    def give_up(self, error: VcacheError) -> None:
        """End the run early because of `error`; the first one counts."""
        self.error = self.error or error
        self.stop()

    def batches(self, found: Iterable[Sequence[WarmItem]]) -> Iterator[tuple[Outcome]]:
        """As `run`, each alone."""
        return zip(self.run(chain.from_iterable(found)))

    def run(self, items: Iterable[WarmItem]) -> Iterator[Outcome]:
        """The Outcome of each item, as it is known."""
        session, walk = self._session, iter(self._desk.over(items) if self._desk else items)
        while not self._stopping:
            begun = time.perf_counter()
            item = next(walk, None)
            self.discover_seconds += time.perf_counter() - begun
            if item is None:
                break
            if isinstance(item, Outcome):
                yield item
                continue
            if session.submit(item):
                yield from self._taken(wait=False)
            while session.full and not self._stopping:
                yield from self._taken(wait=True)
        while session.pending:
            yield from self._taken(wait=True)

    def _taken(self, *, wait: bool) -> Iterator[Outcome]:
        for told in self._session.take(wait=wait):
            self._uploaded(told.uploaded)
            outcome = self._firsts.settle(told.outcome)
            if self._desk:
                self._desk.note(outcome)
            yield outcome
        if self._session.error and not self.error:
            self.give_up(self._session.error)


@contextmanager
def open_cluster(
    work: ShardWork,
    *,
    desk: BucketDesk | None = None,
    uploaded: Callable[[Iterable[RemoteEntry]], None] = _ignore,
) -> Iterator[ClusterPass]:
    """The pass on the cluster that the options of `work` name.

    Args:
        work: what workers do.
        desk: looks items up here first, and remembers; where the store is in a bucket.
        uploaded: told of entries that workers have written to it.

    Raises:
        UsageError: resources that make no sense.
        ModelError: see `RayEngine.session`.
    """
    options, wanted = work.options, work.options.encoder_resources
    resources = None if wanted is None else parse_resources(wanted)
    with RayEngine(options.ray_address, resources).session(work) as session:
        cpus = sum(options.workers or seat.cpus for seat in session.seats)
        encoders = sum(1 if seat.gpus else seat.cpus for seat in session.seats)
        writers = (UPLOADS if work.bucket else WRITER_THREADS) * len(session.seats)
        lanes = {"prepare": cpus, "encode": encoders, "write": writers}
        yield ClusterPass(session, lanes=lanes, desk=desk, uploaded=uploaded)
