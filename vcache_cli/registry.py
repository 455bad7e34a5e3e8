"""Plug-ins by entry point: listed cheaply, loaded at first use."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import ModelError, UsageError

if TYPE_CHECKING:
    from typing import Final

__all__ = ["GROUPS", "load", "names", "origin"]

GROUPS: Final[dict[str, str]] = {
    "backends": "vcache.backends",
    "clips": "vcache.clips",
    "families": "vcache.families",
    "profiles": "vcache.profiles",
    "targets": "vcache.targets",
    "towers": "vcache.towers",
}
"""Short name of each group, to its entry-point group."""


@cache
def _installed() -> dict[str, dict[str, EntryPoint]]:
    # Every distribution is looked into once: each question by group would do that again.
    points = entry_points()
    return {
        group: {point.name: point for point in points.select(group=name)}
        for group, name in GROUPS.items()
    }


def _listed(group: str) -> dict[str, EntryPoint]:
    return _installed()[group]


def names(group: str) -> list[str]:
    """Names of what is installed in `group`, sorted."""
    return sorted(_listed(group))


def origin(group: str, name: str) -> str:
    """The distribution that brings `name`, with its version; empty where it is not known."""
    point = _listed(group)[name]
    return f"{point.dist.name} {point.dist.version}" if point.dist else ""


def load(group: str, name: str) -> Any:  # noqa: ANN401  each group has its own protocol
    """The plug-in object `name` of `group`.

    Raises:
        UsageError: no such plug-in.
        ModelError: the plug-in cannot be imported.
    """
    point = _listed(group).get(name)
    if point is None:
        available = ", ".join(names(group)) or "none"
        raise UsageError(f"no `{name}` among the {group}; available: {available}")
    try:
        return point.load()
    except (ImportError, AttributeError, SyntaxError) as error:
        raise ModelError(f"plug-in `{name}` of {group} cannot be loaded: {error}") from error
