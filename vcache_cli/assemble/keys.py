"""The key of a corpus: one line for the cache of a CI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.assemble.lookup import NOTHING_KNOWN, look_up
from vcache_cli.assemble.recipes import load_recipe
from vcache_cli.digest import digest_json
from vcache_cli.errors import NothingToDoError
from vcache_cli.items import Kind
from vcache_cli.outcome import Failure
from vcache_cli.pipeline import WarmTotals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.protocols import Source

__all__ = ["CorpusKey", "corpus_key"]


@dataclass(frozen=True, slots=True)
class CorpusKey:
    """Names what a store of a corpus would hold."""

    key: str
    """64 hex: equal for equal content and recipe, whatever names and order."""
    items: int
    """Different pictures and videos."""
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
    """The fingerprint of a corpus and a recipe. Reads every file, decodes no picture.

    Raises:
        NothingToDoError: no picture was found.
        ModelError, UsageError: see `open_warm`.
    """
    loaded = load_recipe(model, options)
    recipes = {Kind.IMAGE: loaded.recipe.digest}
    if not isinstance(loaded.clips, Failure):
        recipes[Kind.VIDEO] = loaded.clips.recipe.digest
    digests: dict[Kind, set[str]] = {kind: set() for kind in recipes}
    unreadable = WarmTotals()
    for outcome in look_up(source, loaded, options, NOTHING_KNOWN):
        if outcome.source_sha256 and outcome.kind in digests:
            digests[outcome.kind].add(outcome.source_sha256)
        elif outcome.failure and outcome.failure.transient:
            unreadable.add([outcome])
    if not any(digests.values()):
        raise NothingToDoError(f"no picture was found{_unread(unreadable)}")
    items = sum(map(len, digests.values()))
    failures = tuple(unreadable.failures)
    return CorpusKey(_key(recipes, digests), items, loaded.describe(), unreadable.failed, failures)


def _key(recipes: Mapping[Kind, str], digests: Mapping[Kind, set[str]]) -> str:
    """Videos are named only where there are some: most corpora have none."""
    parts = {
        kind: {"recipe": recipes[kind], "sources": sorted(found)} for kind, found in digests.items()
    }
    videos = {"videos": parts[Kind.VIDEO]} if digests.get(Kind.VIDEO) else {}
    return digest_json({**parts[Kind.IMAGE], **videos})
