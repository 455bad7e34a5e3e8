"""Why would a picture miss? What the store has of it, made under another recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vcache_cli.assemble.drift import recipe_differences
from vcache_cli.errors import InvalidEntryError
from vcache_cli.pipeline import NOT_STORED
from vcache_cli.store import read_header

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Final

    from vcache_cli.outcome import Outcome
    from vcache_cli.store import StoreRoot
    from vcache_cli.store.index import Index

__all__ = ["Misses"]

_MAX_READ: Final = 1_000
"""Misses that are looked into: a report lists no more."""

_FLAGS: Final = ("output", "compute_dtype", "stored_dtype")


@dataclass(slots=True)
class Misses:
    """Looks for other entries of the pictures that would miss; reads headers only."""

    root: StoreRoot
    index: Index
    recipe: Mapping[str, Any]
    """Under which the pictures were looked up, as JSON."""
    other_model: str = ""
    """In what the store's one model differs, where it is not the one asked for."""
    _read: int = 0

    def __call__(self, outcome: Outcome) -> str:
        """Why the item of `outcome`, which would miss, would miss."""
        told = outcome.failure.message if outcome.failure else NOT_STORED.message
        if self.other_model:
            return f"{told}; the store is of another model: {self.other_model}"
        self._read += 1
        if outcome.key and (stale := self._differences(outcome.key)):
            return f"the entry under its key was made with {'; '.join(stale)}"
        others = list(self._others(outcome)) if self._read <= _MAX_READ else []
        if not others:
            return told
        best = min(others, key=len)
        if not best:
            return f"{told}; one of another key is there: the file has changed"
        return f"{told}; one is there with {'; '.join(best)}"

    def _others(self, outcome: Outcome) -> Iterator[list[str]]:
        """What differs in the recipe of each other entry of the same file."""
        for file in outcome.item.files:
            for key in self.index.keys_of(file.absolute_path):
                found = None if key in outcome.keys else self._differences(key)
                if found is not None:
                    yield found

    def _differences(self, key: str) -> list[str] | None:
        """Between the recipe and that of an entry; None where there is none."""
        recipe = self._recipe(key)
        if not recipe:
            return None
        return [
            *_options(self.recipe, recipe),
            *_asked(self.recipe, recipe),
            *_others(self.recipe, recipe),
        ]

    def _recipe(self, key: str) -> Mapping[str, Any]:
        """Of an entry; empty where it is gone, damaged, or says nothing."""
        try:
            relative = self.root.layout.path_of(key)
            facts = read_header(self.root.path / relative, relative, self.root.layout)
        except (OSError, ValueError, InvalidEntryError):
            return {}
        return facts.entry.recipe


def _options(asked: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[str]:
    """What the server would have to be set to."""
    wanted, found = (recipe.get("target_options") for recipe in (asked, there))
    if not isinstance(wanted, dict) or not isinstance(found, dict):  # a file may say anything
        return
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            yield f"{name} {found.get(name)!r:.200}, not {wanted.get(name)!r:.200}"


def _asked(asked: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[str]:
    """What flags decide: the stage, the encoder's output, and the number types."""
    if (stage := there.get("stage")) != asked.get("stage"):
        yield f"stage {stage!s:.40}, not {asked.get('stage')}"
    wanted, found = (recipe.get("encoder") for recipe in (asked, there))
    if not isinstance(wanted, dict) or not isinstance(found, dict):
        return
    for name in _FLAGS:
        if wanted.get(name) != found.get(name):
            yield f"{name} {found.get(name)!s:.40}, not {wanted.get(name)}"


def _others(asked: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[str]:
    parts = ({**recipe, "target_options": {}} for recipe in (asked, there))
    for told in recipe_differences(*parts).values():
        yield from told
