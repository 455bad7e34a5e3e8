"""A warm run: opened, iterated to its end, summed up."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.assemble.passes import worker_count
from vcache_cli.assemble.recipes import LoadedRecipe, load_recipe
from vcache_cli.assemble.space import PruningWriter, refuse_pruning
from vcache_cli.assemble.stores import create_root
from vcache_cli.assemble.targets import store_options
from vcache_cli.assemble.warm_pass import WRITER_THREADS, PassMaker
from vcache_cli.buckets import is_url
from vcache_cli.errors import NothingToDoError, VcacheError
from vcache_cli.outcome import Status
from vcache_cli.pipeline import MOST_AHEAD, ErrorPolicy, WarmPass, WarmTotals
from vcache_cli.protocols import Bounded, Trickling, batches_of
from vcache_cli.store import DiskStore, StoreRoot
from vcache_cli.store.index import Index, open_index
from vcache_cli.store.recipes import keep_recipe
from vcache_cli.store.runs import RunLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from vcache_cli.assemble.bucket_run import BucketRun
    from vcache_cli.assemble.bucket_store import BucketStore
    from vcache_cli.assemble.cluster import ShardWork
    from vcache_cli.assemble.cluster_pass import ClusterPass
    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.outcome import Outcome
    from vcache_cli.protocols import Source

__all__ = ["WarmRun", "WarmSummary", "open_warm"]


@dataclass(frozen=True, slots=True)
class WarmSummary:
    """What a run did."""

    fields: dict[str, Any]
    note: str = ""
    """What is left to do before the server sees what was stored; empty: nothing."""

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.warm/1``."""
        return self.fields


def open_warm(source: Source, *, store: Path | str, model: str, options: WarmOptions) -> WarmRun:
    """Load what the run needs and open the store for writing; a context manager.

    Args:
        source: the corpus.
        store: a folder, or the URL of a store in a bucket.
        model: a model folder, or a name in the local Hugging Face cache.
        options: the caller's choices.

    Raises:
        UsageError: an option that makes no sense.
        ModelError: the model or the backend is not usable.
        NotAStoreError, FormatTooNewError, RefusedError: `store` is not ours to write.
        AccessError, StoreFullError, LockBusyError: the store cannot be written.
    """
    ErrorPolicy.parse(options.on_error, options.max_errors)  # refused before anything is loaded
    refuse_pruning(options)
    if options.engine != "local":
        from vcache_cli.assemble.cluster import check_engine

        check_engine(options)
    if is_url(str(store)):
        loaded, place = _open_bucket(str(store), model, options)
        return WarmRun(source, model=model, loaded=loaded, place=place, options=options)
    loaded = load_recipe(model, options)
    common = store_options(loaded.target, loaded.recipe)
    root = create_root(store, target=options.target, options=common)
    return WarmRun(source, model=model, loaded=loaded, place=root, options=options)


def _open_bucket(url: str, model: str, options: WarmOptions) -> tuple[LoadedRecipe, BucketStore]:
    from vcache_cli.assemble.bucket_store import open_bucket_store, refuse_limits

    refuse_limits(options)
    loaded = load_recipe(model, options)
    return loaded, open_bucket_store(url, loaded, options)


class WarmRun:
    """A run over a corpus: enter it, iterate it once, ask for its summary.

    Args:
        source: the corpus.
        model: as it was named.
        loaded: the recipe and what carries it out.
        place: the store.
        options: the caller's choices.
    """

    def __init__(
        self,
        source: Source,
        *,
        model: str,
        loaded: LoadedRecipe,
        place: StoreRoot | BucketStore,
        options: WarmOptions,
    ) -> None:
        self._source = source
        self._model = model
        self._loaded = loaded
        self._bucket = None if isinstance(place, StoreRoot) else place
        self._root = place if isinstance(place, StoreRoot) else place.state
        self._options = options
        self._policy = ErrorPolicy.parse(options.on_error, options.max_errors)
        self._held = ExitStack()
        self._totals = WarmTotals()
        self._started = time.monotonic()
        self._stopped = False
        self._complete = False
        self._pruner: PruningWriter | None = None
        self._bucket_run: BucketRun | None = None

    def __enter__(self) -> Self:
        """Take the store's write lock, open the index and the run's file."""
        with ExitStack() as held:
            store = held.enter_context(DiskStore(self._root, mode="w"))
            index = held.enter_context(open_index(self._root, mode="w"))
            keep_recipe(self._root, self._loaded.recipe.as_json())
            self._log = held.enter_context(RunLog(self._root))
            if self._bucket:
                from vcache_cli.assemble.bucket_run import BucketRun

                self._bucket_run = BucketRun(self._bucket, self._loaded, self._log.run_id)
                held.callback(self._bucket_run.close)  # once the writers have ended
            self._pass = self._make_pass(store, index, held)
            self._held = held.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish what is being written, note the end, and let go of everything."""
        if kind and issubclass(kind, KeyboardInterrupt):
            self.abandon()
        self._log.finish(self.summary().as_json())
        self._held.close()

    def __iter__(self) -> Iterator[Outcome]:
        """Each item's Outcome, as it is known; raises as `batches`."""
        for outcomes in self.batches():
            yield from outcomes

    def batches(self) -> Iterator[Sequence[Outcome]]:
        """Outcomes as they are known: many at a time where nothing had to be done.

        Raises:
            PartialFailureError: more items failed than the policy bears.
            StoreFullError, AccessError: the store could not be written to the end.
            NothingToDoError: the corpus is empty.
        """
        for outcomes in self._pass.batches(batches_of(self._source)):
            self._totals.add(outcomes)
            self._log.append(outcomes)
            yield outcomes
            self._check_policy()
            if self._bucket_run and (failed := self._bucket_run.see(outcomes)):
                self._pass.give_up(failed)
        error = self._pass.error
        if self._bucket_run:
            error = self._bucket_run.ended(error)
        if error:
            raise error
        if 0 < self._totals.skipped == self._totals.done and not self._stopped:
            raise NothingToDoError(
                f"none of {self._totals.done} files found is a picture",
                hint="files are judged by their first bytes; --verbose names each",
            )
        self._complete = not self._stopped

    def stop(self) -> None:
        """Take no further item; what is in flight is finished. From any thread or a signal."""
        self._stopped = True
        self._pass.stop()

    def abandon(self) -> None:
        """Once stopped: wait no longer for what a bucket is slow to take."""
        if self._bucket_run:
            self._bucket_run.abandon()

    @property
    def run_file(self) -> Path:
        """A line for each Outcome; on this machine, also where the store is in a bucket."""
        return self._log.path

    @property
    def lanes(self) -> dict[str, int]:
        """How many items at once are in each part of the run: prepare, encode, write."""
        if not isinstance(self._pass, WarmPass):
            return self._pass.lanes
        writers = self._bucket_run.lanes if self._bucket_run else WRITER_THREADS
        lanes = {"prepare": worker_count(self._options), "write": writers}
        encoder = self._loaded.encoder
        return {**lanes, "encode": encoder.concurrency} if encoder else lanes

    def summary(self) -> WarmSummary:
        """What has happened so far."""
        elapsed_seconds = time.monotonic() - self._started
        self._totals.seconds["discover"] = self._pass.discover_seconds
        recipe = self._loaded.recipe
        fields: dict[str, Any] = {
            **self._loaded.describe(),
            "run": self._log.run_id,
            **self._totals.as_json(elapsed_seconds=elapsed_seconds),
            "interrupted": not self._complete,
        }
        if self._pruner and self._pruner.pruned_entries:
            fields["pruned"] = {
                "entries": self._pruner.pruned_entries,
                "bytes": self._pruner.pruned_bytes,
            }
        if recipe.encoder and self._loaded.encoder:
            device = self._loaded.encoder.device
            fields["encoder"] = {
                "backend": device["backend"],
                "device": device["device"],
                "dtype": device["dtype"],
                "fingerprint": recipe.encoder.fingerprint,
            }
        target, stored = self._loaded.target, self._totals.statuses[Status.STORED]
        note = target.note if stored and isinstance(target, Bounded) else ""
        if stored and self._bucket_run:
            note = self._bucket_run.note
        return WarmSummary(fields, note)

    def _check_policy(self) -> None:
        if not self._totals.failed:
            return
        try:
            self._policy.check(failed=self._totals.failed, done=self._totals.done)
        except VcacheError as error:
            self._pass.give_up(error)

    def _make_pass(self, store: DiskStore, index: Index, held: ExitStack) -> WarmPass | ClusterPass:
        bucket = self._bucket_run
        if self._options.engine == "ray":
            from vcache_cli.assemble.cluster_pass import open_cluster

            work = self._work()
            opened = bucket.cluster(work, index) if bucket else open_cluster(work)
            return held.enter_context(opened)
        ahead = 1 if _trickles(self._source) else MOST_AHEAD
        maker = PassMaker(self._loaded, self._options, most_ahead=ahead)
        if bucket:
            return maker.made(held.enter_context(bucket.outlet(index)), held)
        made = maker.make(store, index, held)
        self._pruner = maker.pruner
        return made

    def _work(self) -> ShardWork:
        from vcache_cli.assemble.cluster import ShardWork

        return ShardWork(
            store=str(self._root.path),
            store_id=self._root.meta.store_id,
            model=self._model,
            options=self._options,
            recipe=self._loaded.recipe,
            folder=os.getcwd(),
            since_ns=os.stat(self._log.path).st_mtime_ns,
            bucket=self._bucket.share if self._bucket else None,
        )


def _trickles(source: Source) -> bool:
    return isinstance(source, Trickling) and source.trickles
