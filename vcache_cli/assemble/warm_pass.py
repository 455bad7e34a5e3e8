"""The pass of a warm: the same here and on a worker of a cluster, to a folder and to a bucket."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from vcache_cli import engines
from vcache_cli.assemble.batching import batch_size_of, concurrency_of
from vcache_cli.assemble.current import where_current
from vcache_cli.assemble.passes import make_hire, make_triage
from vcache_cli.assemble.space import PruningWriter
from vcache_cli.assemble.stores import open_budget
from vcache_cli.engines.kept import KeptEngine
from vcache_cli.entry import Provenance
from vcache_cli.pipeline import MOST_AHEAD, EncodeBatch, WarmParts, WarmPass
from vcache_cli.store import DiskStore
from vcache_cli.store.index import Index
from vcache_cli.store.presence import Presence
from vcache_cli.store.use import Use
from vcache_cli.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.assemble.recipes import LoadedRecipe
    from vcache_cli.entry import Entry
    from vcache_cli.pipeline import Ledger

__all__ = ["WRITER_THREADS", "Outlet", "PassMaker", "leave_alone"]

WRITER_THREADS: Final = 4


def leave_alone(_key: str) -> None:
    """Touch nothing."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where the entries of a pass go, and what is there."""

    present: Callable[[str], bool]
    """Asked by workers; picklable."""
    found: Callable[[str], bool]
    """Asked in this process; marks what it finds as used. See `make_triage`."""
    touch: Callable[[str], None]
    submit: Callable[[Entry], Future[int]]
    ledger: Ledger


@dataclass(slots=True)
class PassMaker:
    """Puts a pass together from what is loaded and open."""

    loaded: LoadedRecipe
    options: WarmOptions
    most_ahead: int = MOST_AHEAD
    """See `WarmParts`."""
    shares: int = 1
    """Passes that write to the store at once: each may use its share of what room there is."""
    touch: Callable[[str], None] | None = None
    """Marks an entry as used, by key; None is the store's own way."""
    pruner: PruningWriter | None = None
    """Set where the pass prunes to make room."""

    def make(self, store: DiskStore, index: Index, held: ExitStack) -> WarmPass:
        """The pass; `held` ends its writers and workers.

        Raises:
            RefusedError: see `open_budget`.
        """
        root, touch = store.root, self.touch or store.touch
        outlet = Outlet(
            present=where_current(self.loaded, Presence(root)),
            found=Use(root, touch, uses=index),
            touch=touch,
            submit=self._submitter(store, held),
            ledger=index,
        )
        return self.made(outlet, held)

    def made(self, outlet: Outlet, held: ExitStack) -> WarmPass:
        """The pass with another place for its entries; `held` ends its workers."""
        loaded, options = self.loaded, self.options
        encode = EncodeBatch(
            recipe=loaded.recipe,
            target=loaded.target,
            encoder=loaded.encoder,
            make_provenance=cache(lambda: _provenance(loaded)),
            submit=outlet.submit,
        )
        triage = make_triage(loaded, outlet.ledger, outlet.found, retry_errors=options.retry_errors)
        return WarmPass(
            WarmParts(
                triage=triage,
                hire=make_hire(loaded, options, outlet.present, held),
                encode=encode,
                ledger=outlet.ledger,
                touch=outlet.touch,
                encoders=held.enter_context(
                    KeptEngine(lambda: engines.ThreadEngine(concurrency_of(loaded), ahead=1))
                ),
                batch_size=batch_size_of(loaded, options),
                most_ahead=self.most_ahead,
            )
        )

    def _submitter(self, store: DiskStore, held: ExitStack) -> Callable[[Entry], Future[int]]:
        options = self.options
        budget = open_budget(store.root, options, self.loaded.target, shares=self.shares)
        writer = held.enter_context(store.writer(WRITER_THREADS, budget))
        if options.on_full != "prune":
            return writer.submit
        limit, grace = options.max_size_bytes, options.grace_seconds
        self.pruner = PruningWriter(store, writer, budget, limit, grace)
        return self.pruner.submit


def _provenance(loaded: LoadedRecipe) -> Provenance:
    return Provenance(
        recipe=loaded.recipe.as_json(),
        model=loaded.checkpoint.label,
        versions={"vcache": __version__, **loaded.versions},
    )
