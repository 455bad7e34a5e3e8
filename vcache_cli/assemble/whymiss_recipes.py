"""A recipe from its JSON. Pure; anyone may have written it."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from vcache_cli.items import Stage
from vcache_cli.protocols import Evidence
from vcache_cli.recipe import EncoderRecipe, Recipe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vcache_cli.protocols import WarmTarget

__all__ = ["key_under", "recipe_of"]


def recipe_of(value: Mapping[str, Any]) -> Recipe | None:
    """The recipe whose `as_json` is `value`; None where there is none such."""
    try:
        encoder = value.get("encoder")
        parts = {name: part for name, part in value.items() if name != "encoder"}
        made = Recipe(
            **{**parts, "stage": Stage(value["stage"])},
            encoder=None if encoder is None else _encoder(encoder),
        )
        return made if made.as_json() == value and made.digest else None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None


def key_under(value: Mapping[str, Any], target: WarmTarget, source_sha256: str) -> str | None:
    """The key of a source under a recipe as JSON, by a target whose keys follow the digest.

    None where it is no recipe of this version and target.
    """
    recipe = recipe_of(value)
    if recipe is None or recipe.target != target.name:
        return None
    return target.key(recipe, Evidence(source_sha256))


def _encoder(value: Mapping[str, Any]) -> EncoderRecipe:
    known = {each.name for each in fields(EncoderRecipe)}
    if set(value) != known:
        raise TypeError("not the parts of an encoder")
    return EncoderRecipe(**value)
