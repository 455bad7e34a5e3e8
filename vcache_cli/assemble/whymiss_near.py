"""Entries of a store that come near to what is looked up, and in what they differ."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

from vcache_cli.assemble.whymiss_parts import Difference, differences, shown
from vcache_cli.assemble.whymiss_recipes import key_under
from vcache_cli.errors import InvalidEntryError
from vcache_cli.items import display_path
from vcache_cli.protocols import Examiner
from vcache_cli.quantity import format_time
from vcache_cli.store.index_values import pack_key
from vcache_cli.store.inspection import inspect_entry
from vcache_cli.store.reader import read_header
from vcache_cli.store.recipes import kept_recipes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vcache_cli.assemble.recipes import LoadedRecipe
    from vcache_cli.assemble.whymiss_wanted import Wanted
    from vcache_cli.store import StoreRoot
    from vcache_cli.store.index import Index
    from vcache_cli.store.rows import EntryRow

__all__ = ["Near", "Neighbourhood"]

Relation = Literal["same_bytes", "same_picture", "same_path", "same_name"]
"""What an entry has in common with what is wanted, the nearest first."""

_RELATIONS: Final = ("same_bytes", "same_picture", "same_path", "same_name")
_MAX_READ: Final = 200
"""Entries whose headers are read."""
_MAX_NEAR: Final = 5
_MAX_TOLD: Final = 4
_BESIDE_FAMILY: Final = ("family", "stage", "profile", "target")
_MODELS: Final = "SELECT DISTINCT model FROM labels"
_NAMESAKES: Final = "SELECT key, path FROM sources WHERE substr(path, ?) = ? LIMIT 20"


@dataclass(frozen=True, slots=True)
class Near:
    """An entry that is not the one looked up."""

    row: EntryRow
    relation: Relation
    differs_in: tuple[Difference, ...]
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """Empty where nobody knows how it was made."""
    source: str | None = None
    problem: str | None = None
    """What is wrong with its file."""
    wanted_sha256: str | None = None

    @property
    def told(self) -> str:
        """Why it is not what is looked up, in a sentence without its end."""
        if self.problem:
            return f"{self._common}, but the file of that entry is damaged: {self.problem}"
        told = self._telling
        parts = [each.told for each in told[:_MAX_TOLD]]
        if (more := len(told) - _MAX_TOLD) > 0:
            parts.append(f"{more} more {'part' if more == 1 else 'parts'}")
        if not parts and not self.recipe:
            parts = ["it is not recorded how that entry was made"]
        return f"{self._common}, {'; '.join(parts)}" if parts else self._common

    @property
    def _telling(self) -> tuple[Difference, ...]:
        """Of another family all else is other too, and need not be told."""
        if any(each.part == "family" for each in self.differs_in):
            return tuple(each for each in self.differs_in if each.part.startswith(_BESIDE_FAMILY))
        return self.differs_in

    @property
    def _common(self) -> str:
        if self.relation == "same_bytes":
            return "same bytes"
        if self.relation == "same_picture":
            return "same decoded picture"
        before, now = shown(self.row.source_sha256), shown(self.wanted_sha256)
        changed = f"(sha256 {before} -> {now})"
        if self.relation == "same_path":
            return f"same picture file name, bytes changed since {changed}"
        where = display_path(self.source or "")
        return f"a file of the same name was warmed elsewhere, other bytes {changed}: {where}"

    def as_json(self) -> dict[str, Any]:
        """An element of `nearest` of ``vcache.inspect/1``; unknown fields are left out."""
        row = self.row
        created = row.created_seconds
        value: dict[str, Any] = {
            "key": row.key,
            "path": display_path(row.path),
            "model": row.model,
            "stage": row.stage,
            "created": None if created is None else format_time(created),
            "source": display_path(self.source) if self.source else None,
            "source_sha256": row.source_sha256,
            "relation": self.relation,
            "differs_in": [each.as_json() for each in self.differs_in],
            "problem": self.problem,
            "message": self.told,
        }
        return {name: part for name, part in value.items() if part is not None}


@dataclass(slots=True)
class Neighbourhood:
    """Looks around in a store. Reads headers, and the whole of the few nearest files."""

    root: StoreRoot
    index: Index
    loaded: LoadedRecipe
    wanted: Wanted

    def nearest(self) -> tuple[Near, ...]:
        """A few entries of the picture, the nearest first; of its name, where there are none."""
        found: dict[str, Near] = {}
        for relation, row, source in self._candidates():
            if row.key in found or row.key == self.wanted.key or len(found) >= _MAX_READ:
                continue
            found[row.key] = self._near(relation, row, source)
        ordered = sorted(found.values(), key=_distance)
        return tuple(self._examined(each) for each in ordered[:_MAX_NEAR])

    def others(self) -> str:
        """How entries of other pictures were made, in a sentence; empty where there are none."""
        recipes = [each for row in self._sample() if (each := self._recipe(row))]
        recipes = recipes or list(kept_recipes(self.root))
        if not recipes:
            return ""
        wanted = self.wanted.recipe.as_json()
        best = min((differences(wanted, each) for each in recipes), key=len)
        if not best:
            return "entries of other pictures agree in model and settings: this one was not warmed"
        told = "; ".join(each.told for each in best[:_MAX_TOLD])
        return f"entries of other pictures were made otherwise too: {told}"

    def _sample(self) -> Iterator[EntryRow]:
        return islice(self.index.rows("LIMIT ?", [_MAX_READ]), _MAX_READ)

    def _candidates(self) -> Iterator[tuple[Relation, EntryRow, str | None]]:
        digest = self.wanted.source_sha256
        if digest is not None:
            found = self.index.rows("WHERE source = ? LIMIT ?", [bytes.fromhex(digest), _MAX_READ])
            rows = {row.key: row for row in found}
            for row in (*rows.values(), *self._rows(self._under_recipes(digest))):
                yield "same_bytes", row, self._source(row)
        for row in self._rows(self._keys_of_picture()):
            yield "same_picture", row, self._source(row)
        place = self.wanted.item.absolute_path
        here = list(self._rows(self.index.keys_of(place)))
        for row in here:
            same = row.source_sha256 is not None and row.source_sha256 == digest
            yield ("same_bytes" if same else "same_path"), row, place
        if not here and digest is not None:
            yield from self._namesakes()

    def _under_recipes(self, source_sha256: str) -> dict[str, Mapping[str, Any]]:
        """By key of the same bytes, each recipe that was kept beside files that say nothing."""
        if self.loaded.target.key_from != "digest":
            return {}
        keys = (
            (key_under(r, self.loaded.target, source_sha256), r) for r in kept_recipes(self.root)
        )
        return {key: recipe for key, recipe in keys if key is not None}

    def _keys_of_picture(self) -> Iterable[str]:
        """Keys of the picture as the server hashes it, for each of the store's models."""
        image_hash = self.wanted.server.get("image_hash")
        if image_hash is None or not isinstance(self.root.layout, Examiner):
            return ()
        models = sorted(name for (name,) in self.index.query(_MODELS, types=(str | None,)) if name)
        return self.root.layout.keys_of(image_hash, models)

    def _namesakes(self) -> Iterator[tuple[Relation, EntryRow, str | None]]:
        name = os.fsencode(f"/{os.path.basename(self.wanted.item.path)}")
        rows = self.index.query(_NAMESAKES, [-len(name), name], types=(bytes | str, bytes))
        for packed, path in rows:
            key = packed.hex() if isinstance(packed, bytes) else packed
            for row in self._rows([key]):
                if row.source_sha256 != self.wanted.source_sha256:
                    yield "same_name", row, os.fsdecode(path)

    def _rows(self, keys: Iterable[str]) -> Iterator[EntryRow]:
        for key in islice(keys, _MAX_READ):
            yield from self.index.rows("WHERE entries.key = ?", [pack_key(key)])

    def _source(self, row: EntryRow) -> str | None:
        return next(iter(self.index.sources(row.key)), None)

    def _near(self, relation: Relation, row: EntryRow, source: str | None) -> Near:
        recipe = self._recipe(row)
        found = differences(self.wanted.recipe.as_json(), recipe) if recipe else ()
        return Near(row, relation, found, recipe, source, wanted_sha256=self.wanted.source_sha256)

    def _recipe(self, row: EntryRow) -> Mapping[str, Any]:
        """Of an entry; empty where it is gone, damaged, or nobody knows."""
        try:
            path = self.root.path / row.path
            recipe = read_header(path, row.path, self.root.layout).entry.recipe
        except (OSError, InvalidEntryError):
            return {}
        digest = row.source_sha256 or self.wanted.source_sha256
        if recipe or digest is None or self.root.layout.checksum_field is not None:
            return recipe
        return self._under_recipes(digest).get(row.key, {})

    def _examined(self, near: Near) -> Near:
        """`near` with what only the whole file tells."""
        try:
            seen = inspect_entry(self.root, near.row)
        except OSError as error:
            return replace(near, problem=error.strerror or "it cannot be read")
        if seen.problem:
            return replace(near, problem=seen.problem)
        if near.recipe and near.differs_in:
            return near
        found = _server_differences(self.wanted, seen.server)
        if near.recipe and not found and self.loaded.target.key_from != "digest":
            mine = {"versions": dict(self.loaded.versions)}
            known = {name: seen.versions.get(name) for name in self.loaded.versions}
            found = differences(mine, {"versions": known})
        return replace(near, differs_in=found)


def _distance(near: Near) -> tuple[int, int, int, str]:
    """Of another family or stage is farther than of other settings, however many."""
    parts = {each.part for each in near.differs_in}
    far = 2 * ("family" in parts) + ("stage" in parts)
    return _RELATIONS.index(near.relation), far, len(parts), near.row.key


def _server_differences(wanted: Wanted, server: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Between the names in the wanted key and those in a file that the server itself wrote."""
    name, mine = server.get("model_name"), wanted.server.get("model_name")
    if name is None or mine is None:
        return ()
    asked, there = ({"target_options": {"model_name": each}} for each in (mine, name))
    return differences(asked, there)
