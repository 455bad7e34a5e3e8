"""Would each item of a corpus hit?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.assemble.lookup import look_up
from vcache_cli.assemble.misses import Misses
from vcache_cli.assemble.recipes import LoadedRecipe, load_recipe
from vcache_cli.assemble.stores import open_root, refuse_other_target
from vcache_cli.assemble.targets import store_options
from vcache_cli.pipeline import CheckReport
from vcache_cli.store.index import open_index
from vcache_cli.store.presence import Presence

if TYPE_CHECKING:
    from pathlib import Path

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.protocols import Source
    from vcache_cli.store import StoreRoot

__all__ = ["check_corpus"]


def check_corpus(source: Source, *, store: Path, model: str, options: WarmOptions) -> CheckReport:
    """Coverage of the corpus by the store. Presence is looked up; damage is `verify`'s business.

    Raises:
        NotAStoreError: there is no store.
        UsageError: it is of another target.
        ModelError, UsageError: see `open_warm`.
    """
    loaded = load_recipe(model, options)
    report = CheckReport()
    root = open_root(store)
    refuse_other_target(root.path, root.meta, loaded.target.name)
    with open_index(root) as index:
        why = Misses(root, index, loaded.recipe.as_json(), _other_model(root, loaded))
        for outcome in look_up(source, loaded, options, (index, Presence(root))):
            report.add(outcome, why)
    return report


def _other_model(root: StoreRoot, loaded: LoadedRecipe) -> str:
    """In what the store's model differs; empty where it does not, or the store is of any."""
    if not root.meta.target_options:
        return ""
    return root.meta.differences(store_options(loaded.target, loaded.recipe))
