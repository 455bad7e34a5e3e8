"""The key of a corpus: one line for the cache of a CI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.assemble.lookup import NOTHING_KNOWN, look_up
from vcache_cli.assemble.recipes import load_recipe
from vcache_cli.digest import digest_json
from vcache_cli.errors import NothingToDoError
from vcache_cli.items import Kind
from vcache_cli.pipeline import WarmTotals

if TYPE_CHECKING:
    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.protocols import Source

__all__ = ["CorpusKey", "corpus_key"]


@dataclass(frozen=True, slots=True)
class CorpusKey:
    """Names what a store of a corpus would hold."""

    key: str
    """64 hex: equal for equal content and recipe, whatever names and order."""
    items: int
    """Different pictures."""
    recipe: dict[str, Any]
    """See `LoadedRecipe.describe`."""
    unreadable: int = 0
    """Files that could not be read and are not in the key."""
    failures: tuple[dict[str, str], ...] = ()
    """The first thousand of them."""

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.key/1``."""
        document: dict[str, Any] = {
            "key": self.key,
            **self.recipe,
            "items": self.items,
            "unreadable": self.unreadable,
            "failures": list(self.failures),
        }
        if self.unreadable > len(self.failures):
            document["failures_omitted"] = self.unreadable - len(self.failures)
        return document


def _unread(totals: WarmTotals) -> str:
    if not totals.failures:
        return ""
    first = totals.failures[0]
    number = "1 file" if totals.failed == 1 else f"{totals.failed:,} files"
    return f", and {number} could not be read; {first['source']}: {first['message']}"


def corpus_key(source: Source, *, model: str, options: WarmOptions) -> CorpusKey:
    """The fingerprint of a corpus and a recipe. Reads every picture, decodes none.

    Raises:
        NothingToDoError: no picture was found.
        ModelError, UsageError: see `open_warm`.
    """
    loaded = load_recipe(model, options)
    digests: set[str] = set()
    unreadable = WarmTotals()
    for outcome in look_up(source, loaded, options, NOTHING_KNOWN):
        if outcome.source_sha256 and outcome.kind is Kind.IMAGE:
            digests.add(outcome.source_sha256)
        elif outcome.failure and outcome.failure.transient:
            unreadable.add(outcome)
    if not digests:
        raise NothingToDoError(f"no picture was found{_unread(unreadable)}")
    key = digest_json({"recipe": loaded.recipe.digest, "sources": sorted(digests)})
    failures = tuple(unreadable.failures)
    return CorpusKey(key, len(digests), loaded.describe(), unreadable.failed, failures)
