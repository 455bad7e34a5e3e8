"""Entries computed anew from their sources, and compared: what `verify --level recompute` adds."""

from __future__ import annotations

import os
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vcache_cli import media
from vcache_cli.assemble.anew import SkipEntry, Sources, recipe_for, tensors_anew
from vcache_cli.assemble.clips import frames_asked
from vcache_cli.assemble.drift import recipe_differences, version_differences
from vcache_cli.assemble.options import DTYPES, WarmOptions
from vcache_cli.assemble.recipes import LoadedRecipe, load_recipe
from vcache_cli.assemble.servers import MLX_VLM
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.encode.tolerances import TOLERANCES, compare, tolerance_of
from vcache_cli.errors import InvalidEntryError, ModelError, UsageError
from vcache_cli.items import Kind, Stage, display_path
from vcache_cli.store.files import OsFiles
from vcache_cli.store.index import open_index
from vcache_cli.store.index_values import unpack_key
from vcache_cli.store.reader import read_file
from vcache_cli.store.verify_entry import Problem
from vcache_cli.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from vcache_cli.encode.tolerances import Difference
    from vcache_cli.entry import Entry
    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.rows import FileFacts

__all__ = ["Recompute", "open_recompute"]

_OPTION_OF: Final = {stored: name for name, stored in DTYPES.items()}
_KIND: Final = "recompute_mismatch"


@dataclass(eq=False)
class Recompute:
    """Computes entries anew and compares; any thread. Tells of each only what is wrong."""

    root: StoreRoot
    model: str
    label: str
    """The model's name for people, which entries carry."""
    backend: str | None
    sources: Sources
    compared: int = 0
    within: int = 0
    """Entries whose values are those computed anew, within the tolerance."""
    drifted: Counter[str] = field(default_factory=Counter)
    """Entries by why they are not what is computed now."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Entries by why they could not be computed anew."""
    largest_error: float = 0.0
    """Among those within the tolerance."""
    lowest_cosine: float = 1.0
    _loaded: dict[str, LoadedRecipe | str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, file: FileFacts) -> tuple[Problem, ...]:
        """What is wrong with an entry whose file is sound.

        Raises:
            ModelError: the model cannot be computed with.
        """
        try:
            entry = read_file(OsFiles(), f"{self.root.path}/{file.path}", file.path, self._layout)
            return self._examine(file, entry)
        except (OSError, InvalidEntryError):
            return ()  # removed or replaced since it was found sound
        except SkipEntry as reason:
            with self._lock:
                self.skipped[str(reason)] += 1
            return ()

    def as_json(self) -> dict[str, Any]:
        """Fields that level ``recompute`` adds to ``vcache.verify/1``."""
        rows = [
            {"compute_dtype": compute, "stored_dtype": stored, "max_error": each.max_error}
            | {"cosine": each.cosine}
            for (compute, stored), each in TOLERANCES.items()
        ]
        return {
            "model": display_path(self.label),
            "recomputed": {
                "compared": self.compared,
                "within_tolerance": self.within,
                "drifted": dict(sorted(self.drifted.items())),
                "not_recomputable": dict(sorted(self.skipped.items())),
                "largest_error": self.largest_error,
                "lowest_cosine": self.lowest_cosine,
                "tolerances": rows,
            },
        }

    @property
    def _layout(self) -> Any:  # noqa: ANN401  the root's
        return self.root.layout

    def _examine(self, file: FileFacts, entry: Entry) -> tuple[Problem, ...]:
        loaded = self._load(entry)
        recipe = recipe_for(entry, loaded)
        differing = recipe_differences(recipe.as_json(), entry.recipe)
        shares_weights = loaded.encoder is not None and "weights" not in differing
        if differing and not self._is_ours(entry) and not shares_weights:
            raise SkipEntry("other_model")  # it is right to differ
        try:
            difference = self._difference(entry, loaded)
        except SkipEntry:
            if not differing:
                raise
            return (self._drift(file, next(iter(differing)), _told(differing), None),)
        tolerance = tolerance_of(entry.recipe)
        drifts = difference.exceeds(tolerance)
        self._count(difference, drifts=drifts)
        if differing:
            return (self._drift(file, next(iter(differing)), _told(differing), difference),)
        if not drifts:
            return ()
        versions = version_differences(_versions(loaded, entry), entry.provenance.versions)
        told = ", ".join(versions) or "same recipe and versions, other values"
        reason = "versions" if versions else "content"
        return (self._drift(file, reason, told, difference),)

    def _drift(
        self, file: FileFacts, reason: str, told: str, difference: Difference | None
    ) -> Problem:
        with self._lock:
            self.drifted[reason] += 1
        measured = f"; {difference}" if difference else ""
        return Problem(
            file.path,
            _KIND,
            file.key,
            actual=f"{told}{measured}",
            reason=reason,
            max_error=difference.max_error if difference else None,
            cosine=difference.cosine if difference else None,
        )

    def _count(self, difference: Difference, *, drifts: bool) -> None:
        with self._lock:
            self.compared += 1
            if drifts or difference.max_error is None or difference.cosine is None:
                return
            self.within += 1
            self.largest_error = max(self.largest_error, difference.max_error)
            self.lowest_cosine = min(self.lowest_cosine, difference.cosine)

    def _load(self, entry: Entry) -> LoadedRecipe:
        """The recipe that the entry's choices make with the model and the code of today."""
        choices = _choices(entry, self.backend)
        name = repr((choices, self._is_ours(entry)))
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = self._tried(choices, entry)
            loaded = self._loaded[name]
        if isinstance(loaded, str):
            raise SkipEntry(loaded)
        return loaded

    def _tried(self, choices: WarmOptions, entry: Entry) -> LoadedRecipe | str:
        """The recipe, or why entries of such choices cannot be computed anew."""
        try:
            return _load_like(self.model, choices)
        except UsageError:  # a profile or target that is not installed
            return "not_installed"
        except ModelError:
            if self._is_ours(entry):
                raise
            return "other_model"  # which may give what this one does not

    def _is_ours(self, entry: Entry) -> bool:
        """Whether people would say that the model made it."""
        return entry.provenance.model in {None, display_path(self.label)}

    def _difference(self, entry: Entry, loaded: LoadedRecipe) -> Difference:
        anew = tensors_anew(entry, loaded, self.sources)
        return compare(anew, {name: entry.numpy(name) for name in entry.tensors})


def open_recompute(root: StoreRoot, *, model: str, backend: str | None = None) -> Recompute:
    """What computes the entries of `root` anew with `model`; weights are read at the first use.

    Raises:
        ModelError: no such model.
    """
    label = open_checkpoint(model).label
    with open_index(root) as index:
        by_key: dict[str, list[str]] = {}
        rows = index.stream("SELECT key, path FROM sources", types=(bytes | str, bytes))
        for key, path in rows:
            by_key.setdefault(unpack_key(key), []).append(os.fsdecode(path))
        by_digest: dict[str, list[str]] = {}
        seen = index.query("SELECT source, path FROM unchanged", types=(bytes | str, bytes))
        for source, path in seen:
            by_digest.setdefault(unpack_key(source), []).append(os.fsdecode(path))
    sources = Sources(
        *({key: tuple(each) for key, each in one.items()} for one in (by_key, by_digest))
    )
    return Recompute(root, model, label, backend, sources)


def _load_like(model: str, choices: WarmOptions) -> LoadedRecipe:
    """In the compute dtype of the entry; where no backend here has it, in what suits this one."""
    try:
        return load_recipe(model, choices)
    except ModelError:
        if choices.compute_dtype == "auto":
            raise
        return load_recipe(model, replace(choices, compute_dtype="auto"))


def _choices(entry: Entry, backend: str | None) -> WarmOptions:
    recipe, encoder = entry.recipe, entry.recipe.get("encoder")
    try:
        chosen: dict[str, Any] = {
            "stage": Stage(entry.stage),
            "target": str(recipe["target"]),
            "profile": str(recipe["profile"]),
            "backend": None if backend == MLX_VLM else backend,
            "target_options": dict(recipe.get("target_options") or {}),
        }
        if isinstance(encoder, dict):
            if encoder["tower"] == MLX_VLM:  # no backend of ours takes its place
                chosen["backend"] = MLX_VLM
            chosen["output"] = str(encoder["output"])
            chosen["dtype"] = _OPTION_OF[encoder["stored_dtype"]]
            chosen["compute_dtype"] = _OPTION_OF[encoder["compute_dtype"]]
        if entry.provenance.kind is Kind.VIDEO and "clip" in recipe["settings"]:
            chosen |= frames_asked(recipe["settings"]["clip"])
    except (KeyError, TypeError) as error:  # a server's own file says nothing of it
        raise SkipEntry("no_recipe") from error
    return WarmOptions(**chosen)


def _versions(loaded: LoadedRecipe, entry: Entry) -> dict[str, str]:
    """As such entries that are made now record them."""
    av = {"av": media.av_version()} if entry.provenance.kind is Kind.VIDEO else {}
    return {"vcache": __version__, **loaded.versions, **av}


def _told(differing: Mapping[str, list[str]]) -> str:
    return "; ".join(part for parts in differing.values() for part in parts)
