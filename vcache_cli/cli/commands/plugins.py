"""`vcache plugins`: what is installed, and what of it can be used here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vcache_cli.cli.blocks import Block, Table
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.options import JsonOption, QuietOption
from vcache_cli.cli.output import Output
from vcache_cli.errors import VcacheError

__all__ = ["plugins"]


def plugins(as_json: JsonOption = False, quiet: QuietOption = False) -> int:
    """List what is installed, and whether it can be used here.

    Targets, families, towers, backends and profiles, each with the package that brings it.
    """
    found = list(_found())
    bare = [f"{plugin['group']} {plugin['name']}" for plugin in found]
    document = envelope("plugins", {"plugins": found})
    return Output(as_json, quiet).finish(document, _view, bare=bare)


def _found() -> Iterator[dict[str, Any]]:
    from vcache_cli import registry

    for group in sorted(registry.GROUPS):
        for name in registry.names(group):
            reason = _unavailable(group, name)
            yield {
                "group": group,
                "name": name,
                "origin": registry.origin(group, name),
                "available": reason is None,
                "reason": reason,
            }


def _unavailable(group: str, name: str) -> str | None:
    """Why the plug-in cannot be used here; None where it can."""
    from vcache_cli import registry

    try:
        loaded = registry.load(group, name)
    except VcacheError as error:
        return error.message
    reason: str | None = loaded.unavailable() if group == "backends" else None
    return reason


def _view(document: Mapping[str, Any]) -> Sequence[Block]:
    rows = tuple(
        (plugin["group"], plugin["name"], plugin["origin"], plugin.get("reason", "usable"))
        for plugin in document["plugins"]
    )
    return (Table(("group", "name", "from", "state"), rows),)
