"""What a warm would do, without doing it."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.assemble.lookup import NOTHING_KNOWN, Known, look_up, open_known
from vcache_cli.assemble.recipes import LoadedRecipe, load_recipe
from vcache_cli.assemble.stores import open_root, refuse_other_target
from vcache_cli.assemble.targets import store_options
from vcache_cli.assemble.trial import Sample, Trial, try_items
from vcache_cli.buckets import is_url
from vcache_cli.engines.scaling import Scale, Work, scale
from vcache_cli.errors import NotAStoreError
from vcache_cli.items import Features
from vcache_cli.outcome import Failure, Foreseen, Outcome, Status
from vcache_cli.pipeline import NOT_STORED
from vcache_cli.protocols import Bounded
from vcache_cli.store.create import refuse_others
from vcache_cli.store.index import Index

if TYPE_CHECKING:
    from collections.abc import Callable

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.protocols import Source

__all__ = ["Skip", "WarmPlan", "plan_warm", "room"]

_HEADER_BYTES: Final = 1_600
"""Of a typical entry: recipe, versions, digests."""
_MAX_REASONS: Final = 20


@dataclass(slots=True)
class Skip:
    """One reason for which items would be skipped or fail."""

    message: str
    """Of the first of them."""
    source: str
    """Printable name of the first of them."""
    items: int = 0

    def as_json(self) -> dict[str, Any]:
        """The fields of an element of `skips`, its kind aside."""
        return {"items": self.items, "message": self.message, "source": self.source}


@dataclass(slots=True)
class WarmPlan:
    """What a warm would do."""

    recipe: dict[str, Any]
    """See `LoadedRecipe.describe`."""
    bytes_of: Callable[[Foreseen], int]
    """Of the entry that an item becomes, about."""
    bytes_free: int | None = None
    """Of the disk; None of a bucket, which has no end."""
    bytes_room: int | None = None
    """What a warm may write: the free space that is not to be left, or less by a limit."""
    total: int = 0
    to_do: int = 0
    present: int = 0
    unsupported: int = 0
    """Items that would be skipped or fail."""
    bytes_to_read: int = 0
    bytes_to_write: int = 0
    tokens: int = 0
    """Of what is to be done, as the language model will see it."""
    skips: dict[str, Skip] = field(default_factory=dict)
    """Why items would be skipped or fail, by kind."""
    sample: Sample = field(default_factory=Sample)
    """Some of what is to be done."""
    trial: Trial | None = None
    """How long some of it took."""
    load_seconds: float = 0.0
    """What the model took to load; each machine loads it."""
    nodes: int | None = None
    """Machines like this one that the work is thought to be spread over; None where it is not."""

    def add(self, outcome: Outcome) -> None:
        """Count one looked-up item."""
        self.total += 1
        if outcome.status is Status.PRESENT:
            self.present += 1
        elif outcome.failure and outcome.failure.kind == NOT_STORED.kind:
            self.to_do += 1
            self.sample.add(outcome.item)
            self.bytes_to_read += sum(file.size_bytes for file in outcome.item.files)
            if outcome.foreseen:
                self.tokens += outcome.foreseen.num_tokens
                self.bytes_to_write += self.bytes_of(outcome.foreseen)
        else:
            self.unsupported += 1
            if outcome.failure:
                self._skip(outcome.item.source, outcome.failure)

    def _skip(self, source: str, failure: Failure) -> None:
        found = self.skips.setdefault(failure.kind, Skip(failure.message, source))
        found.items += 1

    @property
    def fits(self) -> bool:
        """False where there is too little room for what is to be written."""
        return self.bytes_room is None or self.bytes_to_write <= self.bytes_room

    @property
    def seconds_estimate(self) -> float | None:
        """Of the work to do, about; None where nothing was tried."""
        return self.trial.seconds_for(self.sample.seen) if self.trial else None

    @property
    def scale(self) -> Scale | None:
        """What that would cost; None where it was not asked, or nothing was tried."""
        if self.nodes is None or self.trial is None:
            return None
        work = Work(
            self.to_do,
            self.trial.item_seconds,
            self.load_seconds + self.trial.start_seconds,
            self.bytes_to_write / max(1, self.to_do),
            self.total,
        )
        return scale(work, nodes=self.nodes)

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.plan/1``."""
        scaled = self.scale
        return {
            **self.recipe,
            "items": {
                "total": self.total,
                "to_do": self.to_do,
                "present": self.present,
                "unsupported": self.unsupported,
            },
            "bytes": {
                "to_read": self.bytes_to_read,
                "to_write_estimate": self.bytes_to_write,
                **self._room(),
            },
            "fits": self.fits,
            "tokens": self.tokens,
            "skips": self._skips(),
            "seconds_estimate": self.seconds_estimate,
            "sample": self._sample(),
            "scale": scaled.as_json() if scaled else None,
        }

    def _room(self) -> dict[str, int]:
        if self.bytes_free is None or self.bytes_room is None:
            return {}
        return {"free": self.bytes_free, "room": max(0, self.bytes_room)}

    def _skips(self) -> list[dict[str, Any]]:
        ordered = sorted(self.skips.items(), key=lambda each: (-each[1].items, each[0]))
        return [{"kind": kind, **each.as_json()} for kind, each in ordered[:_MAX_REASONS]]

    def _sample(self) -> dict[str, Any] | None:
        if self.trial is None:
            return None
        return {**self.trial.as_json(), "left_out": self.sample.left_out}


def plan_warm(
    source: Source,
    *,
    store: Path | str,
    model: str,
    options: WarmOptions,
    nodes: int | None = None,
) -> WarmPlan:
    """What `open_warm` would do with the same arguments. Copies count as work to do.

    Sizes are told by the pictures' headers: where the key needs no pixels, nothing is decoded.
    Then some of the work is done, for a few seconds and without its result, for an estimate of
    the time; with `nodes`, also for so many machines like this one. Nothing is written.

    Raises:
        ModelError, UsageError: see `open_warm`.
        FormatTooNewError, AccessError: there is a store that cannot be read.
        RefusedError: there is one of another model.
        NotAStoreError: of a URL, there is no such bucket.
    """
    begun = time.perf_counter()
    loaded = load_recipe(model, options)
    load_seconds = time.perf_counter() - begun
    plan = WarmPlan(loaded.describe(), _entry_bytes(loaded), nodes=nodes)
    plan.load_seconds = load_seconds
    with ExitStack() as held:
        if is_url(str(store)):
            from vcache_cli.assemble.bucket_store import known_in_bucket

            known = held.enter_context(known_in_bucket(str(store), loaded, options))
        else:
            known = _known(Path(store), loaded, held)
            plan.bytes_free = _free_bytes(Path(store))
            plan.bytes_room = room(
                loaded, options, free_bytes=plan.bytes_free, used_bytes=_used_bytes(known)
            )
        for outcome in look_up(source, loaded, options, known):
            plan.add(outcome)
    plan.trial = try_items(plan.sample.items, loaded, options)
    return plan


def room(loaded: LoadedRecipe, options: WarmOptions, *, free_bytes: int, used_bytes: int) -> int:
    """Bytes that a warm may write: what is free but for `min_free`, or up to the store's limit."""
    limits = [options.max_size_bytes]
    if isinstance(loaded.target, Bounded):
        limits.append(loaded.target.max_store_bytes)
    rooms = [limit - used_bytes for limit in limits if limit is not None]
    return min([free_bytes - (options.min_free_bytes or 0), *rooms])


def _used_bytes(known: Known) -> int:
    """Of the store's entries."""
    memo = known[0]
    if not isinstance(memo, Index):
        return 0
    memo.refresh()
    return memo.totals().logical_bytes


def _known(store: Path, loaded: LoadedRecipe, held: ExitStack) -> Known:
    """What the store knows; nothing where it is yet to be made."""
    try:
        meta = open_root(store).meta
    except NotAStoreError:
        return NOTHING_KNOWN
    refuse_other_target(store.absolute(), meta, loaded.target.name)
    if meta.target_options:
        refuse_others(store, meta, store_options(loaded.target, loaded.recipe))
    return held.enter_context(open_known(store))


def _entry_bytes(loaded: LoadedRecipe) -> Callable[[Foreseen], int]:
    """Bytes of an entry by what is foreseen of its item; nothing is encoded to tell a token's."""
    import numpy as np

    if loaded.encoder is None:
        return lambda foreseen: _HEADER_BYTES + foreseen.pixel_bytes
    shapes = loaded.encoder.feature_shapes(1)
    token = Features({name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    tensors = loaded.target.tensors(loaded.recipe, token).values()
    by_token = sum(each.size_bytes for each in tensors if len(each.shape) > 1)
    fixed = _HEADER_BYTES + sum(each.size_bytes for each in tensors if len(each.shape) <= 1)
    return lambda foreseen: fixed + by_token * foreseen.num_tokens


def _free_bytes(store: Path) -> int:
    """Free bytes of the filesystem on which `store` lies, or would."""
    folder = store.absolute()
    while not folder.exists():
        folder = folder.parent
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize
