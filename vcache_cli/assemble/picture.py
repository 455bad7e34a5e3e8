"""A sheet that shows what a model sees of a picture, or what an entry holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli import media
from vcache_cli.assemble.options import WarmOptions
from vcache_cli.assemble.picture_eyes import Eyes, Sight, eyes_of_model, eyes_of_recipe
from vcache_cli.assemble.picture_panels import (
    feature_panel,
    pixel_panel,
    seen_of_entry,
    seen_of_sight,
    source_panel,
)
from vcache_cli.assemble.targets import load_target
from vcache_cli.assemble.whymiss_recipes import key_under
from vcache_cli.assemble.whymiss_wanted import one_item
from vcache_cli.drawing import draw_sheet
from vcache_cli.errors import ItemError, UsageError, VcacheError
from vcache_cli.items import Stage
from vcache_cli.protocols import WarmTarget
from vcache_cli.store.files import OsFiles
from vcache_cli.store.index import open_index
from vcache_cli.store.reader import read_file
from vcache_cli.store.recipes import kept_recipes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

    from vcache_cli.drawing import Panel
    from vcache_cli.store import StoreRoot
    from vcache_cli.store.rows import EntryRow

__all__ = ["Drawing", "draw_entry", "draw_source"]

_MAX_SOURCES: Final = 20


@dataclass(frozen=True, slots=True)
class Drawing:
    """A PNG, and what is on it."""

    png: bytes
    width: int
    height: int
    panels: tuple[str, ...]
    """Their titles, from left to right."""
    note: str = ""
    """Why something is not on it; empty: nothing."""

    def as_json(self) -> dict[str, Any]:
        """The object `picture` of ``vcache.inspect/1``, its path aside."""
        value = {"width": self.width, "height": self.height, "panels": list(self.panels)}
        return {**value, "note": self.note} if self.note else value


def draw_source(path: str, *, model: str, options: WarmOptions) -> Drawing:
    """What `model` sees of the picture or video at `path`; no weights are loaded.

    Raises:
        UsageError: it cannot be read, decoded or preprocessed.
        ModelError, UsageError, RefusedError: see `load_recipe`.
    """
    item = one_item(path)
    eyes = eyes_of_model(model, options)
    try:
        sight = eyes.see(item, options)
    except ItemError as error:
        raise UsageError(f"{item.source}: {error.message}", hint=error.hint) from error
    panels = [source_panel(eyes, sight), pixel_panel(seen_of_sight(eyes, sight))]
    shown = [panel for panel in panels if panel is not None]
    if not shown:
        raise UsageError(f"{item.source}: its pixels have not the shape of a picture")
    return _drawn(shown, item.source)


def draw_entry(root: StoreRoot, row: EntryRow, *, source: str | None = None) -> Drawing:
    """What the entry of `row` holds, beside its source where that is still found.

    Args:
        root: the store.
        row: of the entry.
        source: a file that may be its source, where one is known.

    Raises:
        InvalidEntryError: its file is damaged.
        OSError: its file cannot be read.
        UsageError: it holds nothing that can be drawn.
    """
    entry = read_file(OsFiles(), f"{root.path}/{row.path}", row.path, root.layout)
    eyes = eyes_of_recipe(entry.recipe or _kept_recipe(root, row))
    paths = [*([source] if source else []), *_paths(root, row)]
    sight, note = _source_of(row, eyes, paths)
    like = seen_of_sight(eyes, sight) if eyes and sight else None
    panels: list[Panel | None] = [source_panel(eyes, sight)] if eyes and sight else []
    if entry.stage is Stage.PIXELS:
        panels.append(pixel_panel(seen_of_entry(entry, eyes, like)))
    else:
        panels += [pixel_panel(like) if like else None, feature_panel(entry, like)]
    shown = [panel for panel in panels if panel is not None]
    if not shown:
        raise UsageError(f"entry {entry.key[:16]} holds nothing that can be drawn")
    return _drawn(shown, f"entry {entry.key[:16]}", note)


def _drawn(panels: Sequence[Panel], caption: str, note: str = "") -> Drawing:
    png, (width, height) = draw_sheet(panels, caption=caption)
    return Drawing(png, width, height, tuple(panel.title for panel in panels), note)


def _source_of(row: EntryRow, eyes: Eyes | None, paths: Sequence[str]) -> tuple[Sight | None, str]:
    """The source as it is seen, where the index knows a file that still has those bytes."""
    if eyes is None:
        return None, "the entry does not say how its source was prepared"
    told = "no file is known to be its source"
    for path in paths:
        item = media.reopened(path)
        try:
            sight = eyes.see(item, WarmOptions())
        except (VcacheError, OSError) as error:
            told = f"{item.source}: {getattr(error, 'message', error)}"
            continue
        if row.source_sha256 in {None, sight.source_sha256}:
            return sight, ""
        told = f"{item.source} has changed since"
    return None, told


def _kept_recipe(root: StoreRoot, row: EntryRow) -> Mapping[str, Any]:
    """The recipe that was kept beside files that say nothing; empty where none was."""
    target = load_target(root.meta.target)
    if row.source_sha256 is None or not isinstance(target, WarmTarget):
        return {}
    found = (each for each in kept_recipes(root) if target.key_from == "digest")
    return next((r for r in found if key_under(r, target, row.source_sha256) == row.key), {})


def _paths(root: StoreRoot, row: EntryRow) -> list[str]:
    with open_index(root) as index:
        found = dict.fromkeys(index.sources(row.key))
        if row.source_sha256:
            same = index.rows("WHERE source = ?", [bytes.fromhex(row.source_sha256)])
            found |= dict.fromkeys(path for each in same for path in index.sources(each.key))
    return list(found)[:_MAX_SOURCES]
