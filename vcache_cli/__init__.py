"""Warm the vision caches of VLM servers before the first user arrives.

::

    import vcache_cli as vcache

    store = vcache.open_store(path)
    recipe = vcache.load_recipe(folder)
    entry = store.get(recipe.key_of(picture))  # an Entry, or None
    for outcome in vcache.warm(sources, store=path, model=folder):
        ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.late_names import late_name as _late_name

if TYPE_CHECKING:
    from vcache_cli.assemble import LoadedRecipe, WarmOptions, check, load_recipe, open_store, warm
    from vcache_cli.entry import Entry
    from vcache_cli.errors import VcacheError
    from vcache_cli.items import MediaItem, Stage
    from vcache_cli.outcome import Outcome, Status
    from vcache_cli.version import __version__

__all__ = [
    "Entry",
    "LoadedRecipe",
    "MediaItem",
    "Outcome",
    "Stage",
    "Status",
    "VcacheError",
    "WarmOptions",
    "__version__",
    "check",
    "load_recipe",
    "open_store",
    "warm",
]

_HOMES = {
    "Entry": "entry",
    "LoadedRecipe": "assemble",
    "MediaItem": "items",
    "Outcome": "outcome",
    "Stage": "items",
    "Status": "outcome",
    "VcacheError": "errors",
    "WarmOptions": "assemble",
    "__version__": "version",
    "check": "assemble",
    "load_recipe": "assemble",
    "open_store": "assemble",
    "warm": "assemble",
}


def __getattr__(name: str) -> object:
    """Load a public name from its module at first use, so that importing vcache costs nothing."""
    return _late_name(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
