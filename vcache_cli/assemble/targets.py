"""Targets by name: apart, so that looking after a store loads nothing that decodes or encodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vcache_cli import registry
from vcache_cli.errors import ModelError, UsageError
from vcache_cli.items import Stage
from vcache_cli.protocols import (
    Exclusive,
    FeatureTarget,
    GroupTarget,
    Numerics,
    Optioned,
    Target,
    WarmTarget,
)

if TYPE_CHECKING:
    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.protocols import Backend
    from vcache_cli.recipe import Recipe

__all__ = [
    "demanded",
    "load_target",
    "load_warm_target",
    "resolve_options",
    "store_options",
    "takes_groups",
    "usable_targets",
    "uses",
]


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


def demanded(target: WarmTarget, options: WarmOptions) -> WarmOptions:
    """`options` with what the target asks for, where the caller left it open.

    Raises:
        UsageError: the caller asks for what the target does not take.
        ModelError: the backend that the target asks for is not usable here.
    """
    if isinstance(target, Numerics) and options.backend is None:
        options = replace(options, backend=_backend_of(target))
    if not isinstance(target, FeatureTarget):
        return options
    if options.stage is not Stage.FEATURES:
        raise UsageError(f"target `{target.name}` holds features, and no {options.stage.value}")
    if options.output not in {None, target.output}:
        raise UsageError(f"target `{target.name}` takes output `{target.output}` only")
    return replace(options, output=target.output)


def resolve_options(
    target: WarmTarget, options: WarmOptions, checkpoint: Checkpoint
) -> dict[str, Any]:
    """The recipe's `target_options`.

    Raises:
        UsageError: a stage, or an option that the target does not take.
        ModelError, RefusedError: see `Optioned.options`.
    """
    given = {name: value for name, value in options.target_options.items() if value is not None}
    if given.get("groups") and not isinstance(target, GroupTarget):
        raise UsageError(
            f"target `{target.name}` looks each picture up alone, it has no entries of groups",
            hint="leave `--groups` away, and name the pictures as sources",
        )
    if isinstance(target, Optioned):
        return dict(target.options(given, checkpoint))
    if others := sorted(set(given) - {"groups"}):
        flags = ", ".join(f"`--{name.replace('_', '-')}`" for name in others)
        raise UsageError(f"target `{target.name}` takes no {flags}")
    return {}


def _backend_of(target: Numerics) -> str:
    if target.backend not in registry.names("backends"):
        return target.backend  # a server's own code, which says itself why it cannot be used
    backend: Backend = registry.load("backends", target.backend)
    if (reason := backend.unavailable()) is not None:
        raise ModelError(
            f"the server computes with `{target.backend}`, and so would this: {reason}",
            hint="or name another, such as `--backend numpy`: the last bits of its features "
            "differ from the server's own",
        )
    return target.backend


def store_options(target: WarmTarget, recipe: Recipe) -> dict[str, Any]:
    """What all entries of a store must have in common; empty where they need nothing."""
    return dict(target.store_options(recipe)) if isinstance(target, Exclusive) else {}


def takes_groups(name: str) -> bool:
    """Whether the target `name` also has entries of whole requests.

    Raises:
        UsageError, ModelError: see `load_target`.
    """
    return isinstance(load_target(name), GroupTarget)


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
