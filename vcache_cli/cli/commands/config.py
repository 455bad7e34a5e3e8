"""`vcache config`: each setting with its value and where it comes from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from vcache_cli.cli.blocks import Block, Lines, Table
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.options import JsonOption, QuietOption, settings_for
from vcache_cli.cli.output import Output
from vcache_cli.cli.text import duration, size

__all__ = ["config"]


def config(as_json: JsonOption = False, quiet: QuietOption = False) -> int:
    """Show each setting, its value and where it comes from."""
    from vcache_cli.config import SETTINGS, unknown_variables

    shown = settings_for().as_json()
    about = {setting.name: setting.about for setting in SETTINGS}
    fields = {
        "settings": {name: {**value, "about": about[name]} for name, value in shown.items()},
        "unknown_variables": unknown_variables(os.environ),
    }
    bare = [f"{name}={value['value']}" for name, value in shown.items() if "value" in value]
    return Output(as_json, quiet).finish(envelope("config", fields), _view, bare=bare)


def _view(document: Mapping[str, Any]) -> Sequence[Block]:
    rows = tuple(
        (name, _shown(name, setting.get("value")), setting["origin"], setting["about"])
        for name, setting in document["settings"].items()
    )
    unknown = document["unknown_variables"]
    return (
        Table(("setting", "value", "origin", "about"), rows),
        Lines(tuple(f"{name} is set, but there is no such setting" for name in unknown)),
    )


def _shown(name: str, value: Any) -> str:  # noqa: ANN401  each setting's own type
    if value is None:
        return "-"
    if name in {"max_size", "min_free"}:
        return size(value)
    return duration(value) if name == "grace" else str(value)
