"""A warm on a cluster: shards of the corpus here, the pass of a warm on each machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from vcache_cli.assemble.recipes import load_recipe
from vcache_cli.assemble.stores import open_root
from vcache_cli.assemble.warm_pass import WRITER_THREADS, PassMaker
from vcache_cli.engines.ray_cluster import parse_resources
from vcache_cli.engines.ray_engine import RayEngine
from vcache_cli.errors import ModelError, NotAStoreError, UsageError, VcacheError
from vcache_cli.outcome import Failure, Notice, Outcome, Status
from vcache_cli.store import DiskStore
from vcache_cli.store.index import open_index

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.engines.ray_engine import RaySession
    from vcache_cli.items import WarmItem
    from vcache_cli.pipeline import WarmPass
    from vcache_cli.protocols import Loss
    from vcache_cli.recipe import Recipe
    from vcache_cli.store import StoreRoot

__all__ = ["ClusterPass", "ShardFlow", "ShardWork", "check_engine", "open_cluster"]

_AGAIN: Final = Notice("worker_lost", "done by another worker, since the one that had it was lost")
_LOST_HINT: Final = "leave it out, or see the logs of the workers (`ray logs cluster`)"
_MOST_KEYS: Final = 262_144
"""Stored keys that are remembered, to tell a second one from the first."""


def check_engine(options: WarmOptions) -> None:
    """Refuse an engine that there is not, and what a cluster cannot do.

    Raises:
        UsageError: no such engine, resources that make no sense, or `--on-full prune` on a
            cluster: every worker would prune what the others need.
    """
    if options.engine not in {"local", "ray"}:
        raise UsageError(f"no engine `{options.engine}`; available: local, ray")
    if options.engine == "local":
        return
    if options.encoder_resources is not None:
        parse_resources(options.encoder_resources)
    if options.on_full == "prune":
        raise UsageError(
            "`--on-full prune` works on one machine only",
            hint="run `vcache prune` before, or leave `--engine ray` away",
        )


@dataclass(frozen=True, slots=True)
class ShardWork:
    """What a worker has to know to run the pass: names, a recipe to compare with, no objects."""

    store: str
    """Absolute path of the store, on a filesystem that all nodes share."""
    store_id: str
    model: str
    options: WarmOptions
    recipe: Recipe
    """That of the driver: a worker whose own one differs refuses to work."""
    folder: str
    """Where relative names begin: the driver's current folder."""
    since_ns: int
    """Time of the store's filesystem at which the run began, since 1970."""
    shares: int = 1
    """Workers that write to the store."""

    def among(self, workers: int) -> ShardWork:
        """See `StationWork`."""
        return replace(self, shares=workers)

    @contextmanager
    def opened(self) -> Iterator[ShardFlow]:
        """Open the model and the store on this machine.

        Raises:
            NotAStoreError: there is no such store here, or another one.
            ModelError: the model is not there, or is another one.
            VcacheError: see `open_warm`.
        """
        if os.path.isdir(self.folder):
            os.chdir(self.folder)
        root = self._root()
        loaded = load_recipe(self.model, self.options)
        self._compare(loaded.recipe)
        with ExitStack() as held:
            store = held.enter_context(DiskStore(root, mode="w"))
            index = held.enter_context(open_index(root, mode="w"))
            # Times of entries tell what was made in this run: they are touched at the end alone.
            maker = PassMaker(loaded, self.options, shares=self.shares, touch=_leave)
            flow = ShardFlow(maker.make(store, index, held), store, self.since_ns)
            held.callback(flow.touch_all)
            yield flow

    def _root(self) -> StoreRoot:
        try:
            root = open_root(self.store)
        except NotAStoreError as error:
            raise self._no_store() from error
        if root.meta.store_id != self.store_id:
            raise self._no_store()
        return root

    def _no_store(self) -> NotAStoreError:
        return NotAStoreError(
            f"{self.store}: not the same store on node {os.uname().nodename}",
            hint="put the store on a filesystem that all nodes share, under one path",
        )

    def _compare(self, found: Recipe) -> None:
        if found.digest == self.recipe.digest:
            return
        ours, theirs = self.recipe.as_json(), found.as_json()
        parts = [name for name in ours if ours[name] != theirs.get(name)]
        raise ModelError(
            f"node {os.uname().nodename} would make other entries: it differs in"
            f" {', '.join(parts)}",
            hint="the same model has to lie on every node; name --backend and --compute-dtype where"
            " machines differ",
        )

    def name(self, value: WarmItem) -> Hashable:
        """See `StationWork`."""
        return value.locator

    def name_of(self, result: Outcome) -> Hashable:
        """See `StationWork`."""
        return result.item.locator

    def again(self, result: Outcome) -> Outcome:
        """With a notice; what a worker made in this run and could not tell of is stored."""
        status = Status.STORED if result.status is Status.COPY else result.status
        return result._replace(status=status, notices=(*result.notices, _AGAIN))

    def lost(self, value: WarmItem, loss: Loss, noted: object) -> Outcome:
        """See `StationWork`. Something else may have ended the workers: it is not remembered."""
        failure = Failure("encode", loss.kind, loss.reason, _LOST_HINT, transient=True)
        return Outcome(value, Status.FAILED, failure=failure)


def _leave(_key: str) -> None:
    """Touch nothing."""


@dataclass(slots=True)
class ShardFlow:
    """A pass on a worker: one thread, but for `stop`."""

    warm: WarmPass
    store: DiskStore
    since_ns: int
    _met: list[str] = field(default_factory=list)

    def run(self, values: Iterable[WarmItem]) -> Iterator[Outcome]:
        """The Outcome of each item; what another worker made in this run is a copy of that.

        Raises:
            VcacheError: what ended the pass early.
        """
        for outcome in self.warm.run(values):
            yield self._told(outcome) if outcome.status is Status.PRESENT else outcome
        if self.warm.error:
            raise self.warm.error
        self.touch_all()

    def _told(self, outcome: Outcome) -> Outcome:
        facts = [self.store.stat(key) for key in outcome.entry_keys]
        self._met += outcome.entry_keys
        if any(each is not None and each.st_mtime_ns >= self.since_ns for each in facts):
            return outcome._replace(status=Status.COPY)
        return outcome

    def touch_all(self) -> None:
        """Mark what was found as used."""
        keys, self._met = self._met, []
        for key in keys:
            self.store.touch(key)

    def stop(self) -> None:
        """See `Flow`."""
        self.warm.stop()


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


class ClusterPass:
    """A run over a corpus on the workers of a session; as `WarmPass`, seen from outside."""

    def __init__(self, session: RaySession[WarmItem, Outcome], *, lanes: dict[str, int]) -> None:
        self._session = session
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

    def batches(self, items: Iterable[WarmItem]) -> Iterator[tuple[Outcome]]:
        """As `run`, each alone."""
        return zip(self.run(items))

    def run(self, items: Iterable[WarmItem]) -> Iterator[Outcome]:
        """The Outcome of each item, as it is known."""
        session, walk = self._session, iter(items)
        while not self._stopping:
            begun = time.perf_counter()
            item = next(walk, None)
            self.discover_seconds += time.perf_counter() - begun
            if item is None:
                break
            session.submit(item)
            yield from self._taken(wait=False)
            while session.full and not self._stopping:
                yield from self._taken(wait=True)
        while session.pending:
            yield from self._taken(wait=True)

    def _taken(self, *, wait: bool) -> Iterator[Outcome]:
        for outcome in self._session.take(wait=wait):
            yield self._firsts.settle(outcome)
        if self._session.error and not self.error:
            self.give_up(self._session.error)


@contextmanager
def open_cluster(work: ShardWork) -> Iterator[ClusterPass]:
    """The pass on the cluster that the options of `work` name.

    Raises:
        UsageError: resources that make no sense.
        ModelError: see `RayEngine.session`.
    """
    options, wanted = work.options, work.options.encoder_resources
    resources = None if wanted is None else parse_resources(wanted)
    with RayEngine(options.ray_address, resources).session(work) as session:
        cpus = sum(options.workers or seat.cpus for seat in session.seats)
        encoders = sum(1 if seat.gpus else seat.cpus for seat in session.seats)
        writers = WRITER_THREADS * len(session.seats)
        yield ClusterPass(session, lanes={"prepare": cpus, "encode": encoders, "write": writers})
