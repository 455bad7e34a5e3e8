"""Targets by name: apart, so that looking after a store loads nothing that decodes or encodes."""

from __future__ import annotations

from collections.abc import Iterator

from vcache_cli import registry
from vcache_cli.errors import ModelError, UsageError
from vcache_cli.protocols import Target, WarmTarget

__all__ = ["load_target", "load_warm_target", "usable_targets", "uses"]


def load_target(name: str) -> Target:
    """The target `name`: enough to look after a store of it.

    Raises:
        UsageError: no such target.
        ModelError: its plug-in cannot be imported, or is not a target.
    """
    make = registry.load("targets", name)
    try:
        target: object = make()
    except TypeError as error:
        raise _misfit(name, f"it cannot be made without arguments: {error}") from error
    if not isinstance(target, Target):
        raise _misfit(name, "it lacks a part of `vcache_cli.protocols.Target`")
    return target


def load_warm_target(name: str) -> WarmTarget:
    """The target `name`, to fill a store of it.

    Raises:
        UsageError: no such target, or stores of it can only be looked after.
        ModelError: see `load_target`.
    """
    target = load_target(name)
    if isinstance(target, WarmTarget):
        return target
    able = [each.name for each in usable_targets() if isinstance(each, WarmTarget)]
    raise UsageError(
        f"target `{name}` cannot be warmed: its stores are only read and looked after so far",
        hint=f"targets that can be warmed: {', '.join(able)}",
    )


def usable_targets() -> Iterator[Target]:
    """Every installed target by name, a broken plug-in left out: it spoils no other's store."""
    for name in registry.names("targets"):
        try:
            yield load_target(name)
        except ModelError:
            continue


def uses(target: Target) -> tuple[str, ...]:
    """What can be done with stores of `target`: ``look_after``, and ``warm`` where it is able."""
    return ("look_after", "warm") if isinstance(target, WarmTarget) else ("look_after",)


def _misfit(name: str, reason: str) -> ModelError:
    where = registry.origin("targets", name)
    return ModelError(
        f"plug-in `{name}` of targets is not a target: {reason}",
        hint=f"update or uninstall the package that brings it{where and f': {where}'}",
    )
