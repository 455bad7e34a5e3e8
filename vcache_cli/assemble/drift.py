"""What changed between the recipe or the versions of an entry and those of today. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

__all__ = ["recipe_differences", "version_differences"]

_REASONS: Final[Mapping[str, tuple[str, ...]]] = {
    "weights": ("encoder.tower", "encoder.fingerprint"),
    "processor": (
        *("family", "family_revision", "profile", "profile_revision", "settings"),
        "target_options",
    ),
    "revision": ("encoder.revision",),
}
"""Parts of a recipe, by what their change is called. The weightiest comes first."""

_SHOWN_LENGTH: Final = 40


def recipe_differences(anew: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, list[str]]:
    """What differs between two recipes, as JSON, by reason; the weightiest reason comes first."""
    found = {
        reason: [
            f"{part} {_shown(_part(stored, part))}, now {_shown(_part(anew, part))}"
            for part in parts
            if _part(anew, part) != _part(stored, part)
        ]
        for reason, parts in _REASONS.items()
    }
    return {reason: told for reason, told in found.items() if told}


def version_differences(anew: Mapping[str, str], stored: Mapping[str, str]) -> list[str]:
    """What was of another version, or computed elsewhere, when the entry was made."""
    return [
        f"{name} {stored.get(name, 'none')}, now {anew.get(name, 'none')}"
        for name in sorted(anew.keys() | stored.keys())
        if anew.get(name) != stored.get(name)
    ]


def _part(recipe: Mapping[str, Any], path: str) -> Any:  # noqa: ANN401  any JSON value
    value: Any = recipe
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _shown(value: Any) -> str:  # noqa: ANN401  any JSON value
    """Short enough for a line; of settings, that they differ is enough."""
    if isinstance(value, dict):
        return f"of {len(value)} values"
    text = str(value)
    return text[:12] if len(text) > _SHOWN_LENGTH else text
