"""A warm on a cluster: what each machine does with its shards of the corpus."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from vcache_cli.assemble.bucket_share import BucketShare, Unrecorded
from vcache_cli.assemble.recipes import LoadedRecipe, load_recipe
from vcache_cli.assemble.shard_flow import BucketFlow, ShardFlow, Told, on_this_node
from vcache_cli.assemble.stores import open_root
from vcache_cli.assemble.warm_pass import PassMaker, leave_alone
from vcache_cli.engines.ray_cluster import parse_resources
from vcache_cli.errors import ModelError, NotAStoreError, UsageError
from vcache_cli.outcome import Failure, Notice, Outcome, Status
from vcache_cli.remote import open_remote
from vcache_cli.store import DiskStore
from vcache_cli.store.index import open_index

if TYPE_CHECKING:
    from collections.abc import Hashable

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.items import WarmItem
    from vcache_cli.protocols import Loss
    from vcache_cli.recipe import Recipe
    from vcache_cli.remote import RemoteEntry
    from vcache_cli.store import StoreRoot

__all__ = ["ShardWork", "check_engine"]

_AGAIN: Final = Notice("worker_lost", "done by another worker, since the one that had it was lost")
_LOST_HINT: Final = "leave it out, or see the logs of the workers (`ray logs cluster`)"


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
    """Absolute path of the store, on a filesystem that all nodes share; of the driver's own state
    where the store is in a bucket."""
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
    bucket: BucketShare | None = None
    """The store, where it is in a bucket."""

    def among(self, workers: int) -> ShardWork:
        """See `StationWork`."""
        return replace(self, shares=workers)

    @contextmanager
    def opened(self) -> Iterator[ShardFlow | BucketFlow]:
        """Open the model and the store on this machine.

        Raises:
            NotAStoreError: there is no such store here, or another one.
            ModelError: the model is not there, or is another one; or the extra `remote` is not.
            VcacheError: see `open_warm`.
        """
        if os.path.isdir(self.folder):
            os.chdir(self.folder)
        root = None if self.bucket else self._root()
        self._check_extra()
        loaded = load_recipe(self.model, self.options)
        self._compare(loaded.recipe)
        with ExitStack() as held:
            yield (
                self._bucket_flow(loaded, held) if root is None else self._flow(loaded, root, held)
            )

    def _flow(self, loaded: LoadedRecipe, root: StoreRoot, held: ExitStack) -> ShardFlow:
        store = held.enter_context(DiskStore(root, mode="w"))
        index = held.enter_context(open_index(root, mode="w"))
        # Times of entries tell what was made in this run: they are touched at the end alone.
        maker = PassMaker(loaded, self.options, shares=self.shares, touch=leave_alone)
        flow = ShardFlow(maker.make(store, index, held), store, self.since_ns)
        held.callback(flow.touch_all)
        return flow

    def _bucket_flow(self, loaded: LoadedRecipe, held: ExitStack) -> BucketFlow:
        if self.bucket is None:
            raise TypeError("a worker without a store")
        uploaded: list[RemoteEntry] = []
        outlet = self.bucket.outlet(loaded, uploaded.append, Unrecorded())
        place, writer = held.enter_context(outlet)
        return BucketFlow(PassMaker(loaded, self.options).made(place, held), writer, uploaded)

    def _check_extra(self) -> None:
        if self.bucket:
            try:
                open_remote(self.bucket.url)
            except ModelError as error:
                raise on_this_node(error) from error

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

    def name_of(self, result: Told) -> Hashable:
        """See `StationWork`."""
        return result.outcome.item.locator

    def again(self, result: Told) -> Told:
        """With a notice; what a worker made in this run and could not tell of is stored."""
        found = result.outcome
        status = Status.STORED if found.status is Status.COPY else found.status
        notices = (*found.notices, _AGAIN)
        return result._replace(outcome=found._replace(status=status, notices=notices))

    def lost(self, value: WarmItem, loss: Loss, noted: object) -> Told:
        """See `StationWork`. Something else may have ended the workers: it is not remembered."""
        failure = Failure("encode", loss.kind, loss.reason, _LOST_HINT, transient=True)
        return Told(Outcome(value, Status.FAILED, failure=failure))
