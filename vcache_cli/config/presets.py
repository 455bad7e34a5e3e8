"""Presets: settings that a file keeps under a name, and a command line takes by it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vcache_cli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from vcache_cli.config.files import Layer

__all__ = ["chosen_layers", "split_presets"]

_TABLE: Final = "preset"
_MOST: Final = 20
"""Names told where one is wrong."""


def split_presets(layer: Layer) -> tuple[Layer, dict[str, Layer]]:
    """The layer without its presets, and each of them as a layer of its own.

    Raises:
        UsageError: `preset` is no table of tables.
    """
    presets = layer.values.get(_TABLE, {})
    if not isinstance(presets, dict):
        raise UsageError(
            f"{layer.path}: `preset` should be a table, found {type(presets).__name__}",
            hint="write `[preset.NAME]` above the settings of a preset",
        )
    found = {}
    for name, table in presets.items():
        if not isinstance(table, dict):
            raise UsageError(
                f"{layer.path}: `preset.{name}` should be a table, found {type(table).__name__}",
                hint=f"write `[preset.{name}]` above its settings",
            )
        values = {key.replace("-", "_"): value for key, value in table.items()}
        found[name] = replace(layer, values=values, preset=name)
    rest = {name: value for name, value in layer.values.items() if name != _TABLE}
    return replace(layer, values=rest), found


def chosen_layers(presets: Sequence[dict[str, Layer]], name: str | None) -> tuple[Layer, ...]:
    """The layers of the preset `name`, strongest first; none where no preset was named.

    Raises:
        UsageError: no file has one of that name.
    """
    if not name:
        return ()
    found = tuple(each[name] for each in presets if name in each)
    if not found:
        known = sorted({each for names in presets for each in names})
        hint = (
            f"there are: {', '.join(known[:_MOST])}"
            if known
            else f"write `[preset.{name}]` into vcache.toml, with `model = ...` below it"
        )
        raise UsageError(f"no preset `{name}`", hint=hint)
    return found
