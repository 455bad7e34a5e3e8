"""A target without keys or tensors: its stores can be looked after, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from vcache_cli.protocols import KeyFrom, Unit
from vcache_cli.targets import NativeLayout

__all__ = ["OnlyLook"]

_LAYOUT = NativeLayout()


@dataclass(frozen=True, slots=True)
class OnlyLook:
    """As a plug-in of a server whose keys nobody else can compute."""

    name: str = "only-look"
    key_from: KeyFrom = "digest"
    unit: Unit = "item"
    profile: str | None = None
    layout: NativeLayout = _LAYOUT
