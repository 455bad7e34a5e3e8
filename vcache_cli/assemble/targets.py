"""Targets by name: apart, so that looking after a store loads nothing that decodes or encodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli import registry

if TYPE_CHECKING:
    from vcache_cli.protocols import Target

__all__ = ["load_target"]


def load_target(name: str) -> Target:
    """The target `name`.

    Raises:
        UsageError: no such target.
    """
    target: Target = registry.load("targets", name)()
    return target
