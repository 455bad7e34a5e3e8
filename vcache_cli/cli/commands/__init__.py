"""One module per command, one command per module; nothing heavy is loaded before one runs."""

from __future__ import annotations

from collections.abc import Callable

from vcache_cli.cli.commands import config, doctor, plugins, schema

__all__ = ["COMMANDS"]

COMMANDS: dict[str, Callable[..., int]] = {
    "doctor": doctor.doctor,
    "config": config.config,
    "schema": schema.schema,
    "plugins": plugins.plugins,
}
"""Every command by name, in the order of the help."""
