"""`vcache config`: each setting with its value and where it comes from."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vcache_cli.cli.blocks import Block, Facts, Lines, Table
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.options import JsonOption, PresetOption, QuietOption, settings_for
from vcache_cli.cli.output import Output
from vcache_cli.cli.text import duration
from vcache_cli.items import display_path
from vcache_cli.quantity import format_size

__all__ = ["config"]

_WIDE = 120
"""Columns from which there is room to say what each setting is about."""


def config(
    preset: PresetOption = None, as_json: JsonOption = False, quiet: QuietOption = False
) -> int:
    """Show each setting, its value and where it comes from."""
    from vcache_cli.config import (
        SETTINGS,
        check_presets,
        preset_files,
        unknown_variables,
        user_config_path,
    )

    shown = settings_for(preset=preset).as_json()
    check_presets(Path.cwd())
    about = {setting.name: setting.about for setting in SETTINGS}
    fields = {
        "settings": {name: {**value, "about": about[name]} for name, value in shown.items()},
        "presets": {
            name: [display_path(path) for path in paths]
            for name, paths in preset_files(Path.cwd()).items()
        },
        "user_file": display_path(str(user_config_path())),
        "unknown_variables": unknown_variables(os.environ),
    }
    bare = [f"{name}={_plain(each['value'])}" for name, each in shown.items() if "value" in each]
    return Output(as_json, quiet).finish(envelope("config", fields), _view, bare=bare)


def _view(document: Mapping[str, Any]) -> Sequence[Block]:
    rows: tuple[tuple[str, ...], ...] = tuple(
        (name, _shown(name, setting.get("value")), setting["origin"], setting["about"])
        for name, setting in document["settings"].items()
    )
    unknown = document["unknown_variables"]
    user_file = document["user_file"]
    state = "" if os.path.exists(user_file) else ", not there yet"
    columns: tuple[str, ...] = ("setting", "value", "origin", "about")
    if shutil.get_terminal_size((_WIDE, 0)).columns < _WIDE:  # a file or a pipe has room
        columns, rows = columns[:3], tuple(row[:3] for row in rows)
    return (
        Table(columns, rows),
        Facts(
            (
                *(("presets", ", ".join(names)) for names in (document["presets"],) if names),
                ("your own file", user_file + state),
            )
        ),
        Lines(tuple(f"{name} is set, but there is no such setting" for name in unknown)),
    )


def _shown(name: str, value: Any) -> str:  # noqa: ANN401  each setting's own type
    if value is None:
        return "-"
    if name in {"max_size", "min_free"}:
        return format_size(value)
    if name == "grace":
        return duration(value)
    return _plain(value)


def _plain(value: Any) -> str:  # noqa: ANN401  each setting's own type
    """As a settings file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
