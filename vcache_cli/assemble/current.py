"""Presence where a key says too little: an entry of another recipe lies under the same one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vcache_cli.errors import InvalidEntryError
from vcache_cli.protocols import LooseKeys
from vcache_cli.store import read_header

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from vcache_cli.assemble.recipes import LoadedRecipe
    from vcache_cli.store.presence import Presence

__all__ = ["where_current"]


def where_current(loaded: LoadedRecipe, present: Presence) -> Callable[[str], bool]:
    """`present`, but for an entry that a warm under another recipe left, to be written anew."""
    if not isinstance(loaded.target, LooseKeys):
        return present
    return _Current(present, loaded.target, loaded.recipe.as_json())


@dataclass(frozen=True, slots=True)
class _Current:
    """Reads the header of what is there. Picklable."""

    present: Presence
    target: LooseKeys
    recipe: Mapping[str, Any]

    def __call__(self, key: str) -> bool:
        """True for an entry of this recipe, and for one of which nobody knows the recipe."""
        if not self.present(key):
            return False
        root = self.present.root
        try:
            relative = root.layout.path_of(key)
            found = read_header(root.path / relative, relative, root.layout).entry.recipe
        except InvalidEntryError:
            return True  # damage is the business of `verify`, and of the server's own reader
        except OSError:
            return False
        return not found or self.target.is_current(self.recipe, found)
