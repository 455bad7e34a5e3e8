"""Questions about a corpus that change no entry: would it hit, what would be done, its key."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.assemble.passes import make_prepare, make_triage, make_workers
from vcache_cli.assemble.recipes import Kitchen, open_kitchen
from vcache_cli.assemble.stores import open_root
from vcache_cli.digest import digest_json
from vcache_cli.errors import NotAStoreError
from vcache_cli.items import Kind
from vcache_cli.outcome import Outcome, Status
from vcache_cli.pipeline import NOT_STORED, CheckReport, check_items
from vcache_cli.store.index import open_index
from vcache_cli.store.presence import Presence
from vcache_cli.tensor import ITEMSIZE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.items import FileStat
    from vcache_cli.outcome import Failure
    from vcache_cli.protocols import Memo, Seen, Source

__all__ = ["CorpusKey", "WarmPlan", "check_corpus", "corpus_key", "plan_warm"]


class _NoMemo:
    """Where there is no store yet, nothing was learnt."""

    def unchanged(self, path: str, stat: FileStat) -> Seen | None:
        return None

    def known(self, source_sha256: str, context: str) -> str | None:
        return None

    def failed(self, source_sha256: str, context: str) -> Failure | None:
        return None


def check_corpus(source: Source, *, store: Path, model: str, options: WarmOptions) -> CheckReport:
    """Coverage of the corpus by the store. Presence is looked up; damage is `verify`'s business.

    Raises:
        NotAStoreError: there is no store.
        ModelError, UsageError: see `open_warm`.
    """
    kitchen = open_kitchen(model, options)
    report = CheckReport()
    with ExitStack() as held:
        root = open_root(store)
        index = held.enter_context(open_index(root))
        for outcome in _looked_up(source, kitchen, options, (index, Presence(root))):
            report.add(outcome)
    return report


def _looked_up(
    source: Source,
    kitchen: Kitchen,
    options: WarmOptions,
    known: tuple[Memo, Callable[[str], bool]],
) -> Iterator[Outcome]:
    memo, present = known
    return check_items(
        source.items(),
        triage=make_triage(kitchen, memo, present),
        prepare=make_prepare(kitchen, options, present, only_key=True),
        workers=make_workers(options),
    )


# --- what a warm would do --------------------------------------------------------------------


@dataclass(slots=True)
class WarmPlan:
    """What a warm would do."""

    total: int = 0
    to_do: int = 0
    present: int = 0
    unsupported: int = 0
    """Items that would be skipped or fail."""
    bytes_to_read: int = 0
    bytes_to_write_estimate: int = 0
    bytes_free: int = 0

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.plan/1``."""
        return {
            "items": {
                "total": self.total,
                "to_do": self.to_do,
                "present": self.present,
                "unsupported": self.unsupported,
            },
            "bytes": {
                "to_read": self.bytes_to_read,
                "to_write_estimate": self.bytes_to_write_estimate,
                "free": self.bytes_free,
            },
        }


def plan_warm(source: Source, *, store: Path, model: str, options: WarmOptions) -> WarmPlan:
    """What `open_warm` would do with the same arguments. Copies count as work to do.

    Raises:
        ModelError, UsageError: see `open_warm`.
        FormatTooNewError, AccessError: there is a store that cannot be read.
    """
    kitchen = open_kitchen(model, options)
    plan = WarmPlan(bytes_free=_free_bytes(store))
    size_bytes = _entry_bytes(kitchen)
    with ExitStack() as held:
        for outcome in _looked_up(source, kitchen, options, _known(store, held)):
            plan.total += 1
            if outcome.status is Status.PRESENT:
                plan.present += 1
            elif outcome.failure and outcome.failure.kind == NOT_STORED.kind:
                plan.to_do += 1
                plan.bytes_to_read += outcome.item.stat.size_bytes if outcome.item.stat else 0
                plan.bytes_to_write_estimate += size_bytes
            else:
                plan.unsupported += 1
    return plan


def _known(store: Path, held: ExitStack) -> tuple[Memo, Callable[[str], bool]]:
    """What the store knows; nothing where it is yet to be made."""
    try:
        root = open_root(store)
    except NotAStoreError:
        return _NoMemo(), lambda _key: False
    index = held.enter_context(open_index(root))
    return index, Presence(root)


def _entry_bytes(kitchen: Kitchen) -> int:
    """Bytes of a typical entry, from shapes alone."""
    tokens = kitchen.preprocessor.num_tokens(1, 1)
    if kitchen.recipe.encoder is None or kitchen.encoder is None:
        settings = kitchen.recipe.settings
        return 3 * 4 * int(settings.get("height", 0)) * int(settings.get("width", 0))
    width = int(kitchen.checkpoint.config.get("vision_config", {}).get("hidden_size", 0))
    return tokens * width * ITEMSIZE_BYTES[kitchen.recipe.encoder.stored_dtype]


def _free_bytes(store: Path) -> int:
    """Free bytes of the filesystem on which `store` lies, or would."""
    folder = store.absolute()
    while not folder.exists():
        folder = folder.parent
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize


# --- the key of a corpus ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CorpusKey:
    """Names what a store of a corpus would hold."""

    key: str
    """64 hex: equal for equal content and recipe, whatever names and order."""
    items: int
    """Different pictures."""
    recipe: str

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.key/1``."""
        return {"key": self.key, "items": self.items, "recipe": self.recipe}


def corpus_key(source: Source, *, model: str, options: WarmOptions) -> CorpusKey:
    """The fingerprint of a corpus and a recipe. Reads every picture, decodes none.

    Raises:
        ModelError, UsageError: see `open_warm`.
    """
    kitchen = open_kitchen(model, options)
    digests: set[str] = set()
    nothing = (_NoMemo(), lambda _key: False)
    for outcome in _looked_up(source, kitchen, options, nothing):
        if outcome.source_sha256 and outcome.kind is Kind.IMAGE:
            digests.add(outcome.source_sha256)
    recipe = kitchen.recipe.digest
    key = digest_json({"recipe": recipe, "sources": sorted(digests)})
    return CorpusKey(key, len(digests), recipe)
