"""What a server would look up for one picture: its key, and the parts that the key is made of."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vcache_cli.assemble.passes import make_prepare, make_workers
from vcache_cli.errors import UsageError
from vcache_cli.items import FileStat, Kind, MediaItem, display_path
from vcache_cli.media import is_container, reopened
from vcache_cli.outcome import Failure, Outcome
from vcache_cli.pipeline import Prepared

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.assemble.recipes import LoadedRecipe
    from vcache_cli.recipe import Recipe

__all__ = ["Wanted", "one_item", "wanted_of"]

_FRAMES: Final = Failure(
    "digest",
    "video",
    "a video of which the server looks each frame up by itself",
    hint="`vcache check` says how many of its frames are there",
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What would be looked up for an item, as far as it could be computed."""

    item: MediaItem
    recipe: Recipe
    model: str
    """Label of the model."""
    key: str | None = None
    source_sha256: str | None = None
    kind: Kind | None = None
    num_tokens: int | None = None
    server: Mapping[str, str] = field(default_factory=dict)
    """What the target's file would say of it, by the server's names: parts of its key."""
    failure: Failure | None = None
    """Why there is no key."""

    def as_json(self) -> dict[str, Any]:
        """The object `wanted` of ``vcache.inspect/1``; unknown fields are left out."""
        value: dict[str, Any] = {
            "key": self.key,
            "source": self.item.source,
            "source_sha256": self.source_sha256,
            "kind": self.kind.value if self.kind else None,
            "num_tokens": self.num_tokens,
            "model": display_path(self.model),
            "recipe_sha256": self.recipe.digest,
            "recipe": self.recipe.as_json(),
            "server": dict(self.server) or None,
        }
        return {name: part for name, part in value.items() if part is not None}


def one_item(path: str) -> MediaItem:
    """The picture or video at `path`, or the member of an archive, ``photos.zip::a.jpg``.

    Raises:
        UsageError: there is none, or it is a folder or an archive as a whole.
    """
    name = display_path(path)
    if os.path.isdir(path) or (os.path.isfile(path) and is_container(path)):
        raise UsageError(
            f"{name} holds many pictures, and one is asked about",
            hint="name a picture, or for a member `ARCHIVE::NAME`; `vcache check` takes a corpus",
        )
    try:
        return MediaItem(path, FileStat.of(os.stat(path)), explicit=True)
    except OSError as error:
        item = reopened(os.path.abspath(path))
        if item.part is None:
            raise UsageError(f"{name}: {error.strerror}", hint="name a picture or video") from error
        return replace(item, explicit=True)


def wanted_of(item: MediaItem, loaded: LoadedRecipe, options: WarmOptions) -> Wanted:
    """What a server would look up for `item`; decoded as a warm decodes it, nothing is written."""
    prepare = make_prepare(loaded, options, _nothing_there)
    with make_workers(loaded, replace(options, workers=1)).session(prepare) as session:
        session.submit(item)
        [result] = session.take(wait=True)
    model = loaded.checkpoint.label
    if isinstance(result, Prepared):
        return _prepared(item, result, loaded)
    outcome = result if isinstance(result, Outcome) else None
    if outcome is None:
        return Wanted(item, loaded.recipe, model, kind=Kind.VIDEO, failure=_FRAMES)
    return Wanted(
        item,
        loaded.recipe,
        model,
        source_sha256=outcome.source_sha256,
        kind=outcome.kind,
        failure=outcome.failure,
    )


def _prepared(item: MediaItem, result: Prepared, loaded: LoadedRecipe) -> Wanted:
    return Wanted(
        item,
        result.recipe or loaded.recipe,
        loaded.checkpoint.label,
        result.key,
        result.trace.source_sha256,
        result.trace.kind,
        sum(each.num_tokens for each in result.pixels),
        result.metadata,
    )


def _nothing_there(_key: str) -> bool:
    return False
