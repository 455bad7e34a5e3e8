"""Why would a server miss a picture, and what makes it hit?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from vcache_cli.assemble.current import where_current
from vcache_cli.assemble.options import DTYPES, WarmOptions
from vcache_cli.assemble.recipes import load_recipe
from vcache_cli.assemble.stores import open_root, refuse_other_target
from vcache_cli.assemble.targets import store_options
from vcache_cli.assemble.whymiss_near import Near, Neighbourhood
from vcache_cli.assemble.whymiss_parts import differences
from vcache_cli.assemble.whymiss_wanted import Wanted, one_item, wanted_of
from vcache_cli.errors import VcacheError
from vcache_cli.items import Stage
from vcache_cli.store.index import open_index
from vcache_cli.store.index_values import pack_key
from vcache_cli.store.inspection import inspect_entry
from vcache_cli.store.presence import Presence

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vcache_cli.assemble.recipes import LoadedRecipe
    from vcache_cli.store import StoreRoot
    from vcache_cli.store.index import Index

__all__ = ["WhyMiss", "why_miss"]

State = Literal["hit", "cold", "damaged", "stale", "other_model", "unreadable"]

_NAMES_OF: Final = {stored: name for name, stored in DTYPES.items()}
_UNKNOWN: Final = "of what model and settings it was made, its file does not say"
"""Of an entry that the server wrote itself, under a key that leaves them out."""
_FOLLOWS_PROFILE: Final = ("settings.", "profile_revision", "family_revision")
"""Parts that may differ only because the profile does."""


@dataclass(frozen=True, slots=True)
class WhyMiss:
    """Whether a server would hit, and if not, why."""

    state: State
    wanted: Wanted
    reasons: tuple[str, ...] = ()
    """Sentences without their ends, the weightiest first."""
    nearest: tuple[Near, ...] = ()
    ask_instead: Mapping[str, Any] = field(default_factory=dict)
    """Choices under which the nearest entry is the one looked up, by the names of
    `WarmOptions` and of its `target_options`; empty where none of ours lead there."""

    @property
    def would_hit(self) -> bool:
        """True where the server would find a sound entry of this recipe."""
        return self.state == "hit"

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.inspect/1`` with ``--why-miss``, the commands aside."""
        return {
            "would_hit": self.would_hit,
            "state": self.state,
            "wanted": self.wanted.as_json(),
            "reasons": list(self.reasons),
            "nearest": [each.as_json() for each in self.nearest],
        }


def why_miss(path: str, *, store: Path, model: str, options: WarmOptions) -> WhyMiss:
    """Look for the entry of the picture at `path`; nothing is written.

    Raises:
        UsageError: there is no one picture, or the store is of another target.
        NotAStoreError: there is no store.
        ModelError, UsageError: see `open_warm`.
    """
    item = one_item(path)
    root = open_root(store)
    refuse_other_target(root.path, root.meta, options.target)
    loaded = load_recipe(model, options)
    wanted = wanted_of(item, loaded, options)
    if wanted.failure or wanted.key is None:
        told = wanted.failure.message if wanted.failure else "no key can be computed"
        return WhyMiss("unreadable", wanted, (told,))
    with open_index(root) as index:
        index.refresh()
        around = Neighbourhood(root, index, loaded, wanted)
        return _there(root, index, loaded, wanted) or _missing(around, model, options)


def _there(root: StoreRoot, index: Index, loaded: LoadedRecipe, wanted: Wanted) -> WhyMiss | None:
    """What is to be said of the entry under the wanted key; None where there is none."""
    key = wanted.key or ""
    if not Presence(root)(key):
        return None
    rows = list(index.rows("WHERE entries.key = ?", [pack_key(key)]))
    if not rows:
        return None
    try:
        seen = inspect_entry(root, rows[0])
    except OSError as error:
        told = f"the entry is there, but cannot be read: {error.strerror}"
        return WhyMiss("damaged", wanted, (told,))
    if seen.problem:
        return WhyMiss("damaged", wanted, (f"the entry is there, but damaged: {seen.problem}",))
    if where_current(loaded, Presence(root))(key):
        unknown = not seen.recipe and loaded.target.key_from != "digest"
        return WhyMiss("hit", wanted, (_UNKNOWN,) if unknown else ())
    found = differences(wanted.recipe.as_json(), seen.recipe)
    told = "; ".join(each.told for each in found) or "it is of another recipe"
    reason = f"the server would take an entry that is out of date: {told}"
    return WhyMiss("stale", wanted, (reason,))


def _missing(around: Neighbourhood, model: str, options: WarmOptions) -> WhyMiss:
    wanted, root, loaded = around.wanted, around.root, around.loaded
    nearest = around.nearest()
    reasons = [each.told for each in nearest]
    if not nearest:
        empty = not around.index.totals().entries
        reasons = ["the store is empty" if empty else "nothing in this store is of this picture"]
        reasons += [told for told in (around.others(),) if told]
    common = store_options(loaded.target, loaded.recipe)
    if root.meta.target_options and (other := root.meta.differences(common)):
        reasons.insert(0, f"the store is of another model: {other}")
        return WhyMiss("other_model", wanted, tuple(reasons), nearest)
    instead = _instead(nearest[0], wanted, model, options) if nearest else {}
    return WhyMiss("cold", wanted, tuple(reasons), nearest, instead)


def _instead(near: Near, wanted: Wanted, model: str, options: WarmOptions) -> dict[str, Any]:
    """Choices under which `near` is looked up: tried, so that they are no guess."""
    found = _choices(near)
    if not found or near.problem or near.relation not in {"same_bytes", "same_picture"}:
        return {}
    names = {name: value for name, value in found.items() if name in {"model_name", "max_side"}}
    others = {name: value for name, value in found.items() if name not in names}
    try:
        tried = replace(options, target_options={**options.target_options, **names}, **others)
        key = wanted_of(wanted.item, load_recipe(model, tried), tried).key
    except (VcacheError, TypeError, ValueError):  # a file may name what there is not
        return {}
    return found if key == near.row.key else {}


def _choices(near: Near) -> dict[str, Any]:
    """The choices that a user made otherwise for `near`; empty where others differ as well."""
    encoder = near.recipe.get("encoder")
    made = encoder if isinstance(encoder, dict) else {}
    options = near.recipe.get("target_options")
    known = options if isinstance(options, dict) else {}
    values = {
        "encoder.stored_dtype": ("dtype", _NAMES_OF.get(str(made.get("stored_dtype")))),
        "encoder.compute_dtype": ("compute_dtype", _NAMES_OF.get(str(made.get("compute_dtype")))),
        "stage": ("stage", _stage(near.recipe.get("stage"))),
        "profile": ("profile", _of(str, near.recipe.get("profile"))),
        "target_options.model_name": (
            "model_name",
            _of(str, known.get("model_name")) or _named(near),
        ),
        "target_options.max_side": ("max_side", _of(int, known.get("max_side"))),
    }
    parts = [each.part for each in near.differs_in]
    rest = [part for part in parts if part not in values]
    if rest and not ("profile" in parts and all(p.startswith(_FOLLOWS_PROFILE) for p in rest)):
        return {}
    found = dict(values[part] for part in parts if part in values)
    return {} if None in found.values() else found


def _named(near: Near) -> str | None:
    """The model's name in a file that the server wrote."""
    parts = {each.part: each.stored for each in near.differs_in}
    return parts.get("target_options.model_name")


def _stage(text: object) -> Stage | None:
    return next((stage for stage in Stage if stage.value == text), None)


def _of(kind: type, value: object) -> Any:  # noqa: ANN401  of that type
    """`value` where it is of `kind`; a file may say anything."""
    return value if type(value) is kind else None
