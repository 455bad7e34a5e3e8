"""A recipe from its JSON. Pure; anyone may have written it."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from vcache_cli.items import Stage
from vcache_cli.recipe import EncoderRecipe, Recipe

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["recipe_of"]


def recipe_of(value: Mapping[str, Any]) -> Recipe | None:
    """The recipe whose `as_json` is `value`; None where there is none such."""
    try:
        encoder = value.get("encoder")
        parts = {name: part for name, part in value.items() if name != "encoder"}
        made = Recipe(
            **{**parts, "stage": Stage(value["stage"])},
            encoder=None if encoder is None else _encoder(encoder),
        )
        return made if made.as_json() == value else None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None


def _encoder(value: Mapping[str, Any]) -> EncoderRecipe:
    known = {each.name for each in fields(EncoderRecipe)}
    if set(value) != known:
        raise TypeError("not the parts of an encoder")
    return EncoderRecipe(**value)
