"""What a warm would do, without doing it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.assemble.lookup import NOTHING_KNOWN, Known, look_up, open_known
from vcache_cli.assemble.recipes import LoadedRecipe, load_recipe
from vcache_cli.assemble.stores import open_root, refuse_other_target
from vcache_cli.assemble.targets import store_options
from vcache_cli.errors import NotAStoreError
from vcache_cli.items import Features
from vcache_cli.outcome import Foreseen, Outcome, Status
from vcache_cli.pipeline import NOT_STORED
from vcache_cli.store.create import refuse_others

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.protocols import Source

__all__ = ["WarmPlan", "plan_warm"]

_HEADER_BYTES: Final = 1_600
"""Of a typical entry: recipe, versions, digests."""


@dataclass(slots=True)
class WarmPlan:
    """What a warm would do."""

    recipe: dict[str, Any]
    """See `LoadedRecipe.describe`."""
    bytes_of: Callable[[Foreseen], int]
    """Of the entry that an item becomes, about."""
    bytes_free: int
    total: int = 0
    to_do: int = 0
    present: int = 0
    unsupported: int = 0
    """Items that would be skipped or fail."""
    bytes_to_read: int = 0
    bytes_to_write: int = 0
    tokens: int = 0
    """Of what is to be done, as the language model will see it."""

    def add(self, outcome: Outcome) -> None:
        """Count one looked-up item."""
        self.total += 1
        if outcome.status is Status.PRESENT:
            self.present += 1
        elif outcome.failure and outcome.failure.kind == NOT_STORED.kind:
            self.to_do += 1
            self.bytes_to_read += sum(file.size_bytes for file in outcome.item.files)
            if outcome.foreseen:
                self.tokens += outcome.foreseen.num_tokens
                self.bytes_to_write += self.bytes_of(outcome.foreseen)
        else:
            self.unsupported += 1

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.plan/1``."""
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
                "free": self.bytes_free,
            },
            "tokens": self.tokens,
        }


def plan_warm(source: Source, *, store: Path, model: str, options: WarmOptions) -> WarmPlan:
    """What `open_warm` would do with the same arguments. Copies count as work to do.

    Sizes are told by the pictures' headers: where the key needs no pixels, nothing is decoded.

    Raises:
        ModelError, UsageError: see `open_warm`.
        FormatTooNewError, AccessError: there is a store that cannot be read.
        RefusedError: there is one of another model.
    """
    loaded = load_recipe(model, options)
    plan = WarmPlan(loaded.describe(), _entry_bytes(loaded), _free_bytes(store))
    with ExitStack() as held:
        for outcome in look_up(source, loaded, options, _known(store, loaded, held)):
            plan.add(outcome)
    return plan


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
