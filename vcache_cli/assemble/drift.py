"""What changed between the recipe or the versions of an entry and those of today. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
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
_SHOWN_SETTINGS: Final = 3
_ABSENT: Final = "none"


def recipe_differences(anew: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, list[str]]:
    """What differs between two recipes, as JSON, by reason; the weightiest reason comes first."""
    found = {
        reason: [
            told
            for part in parts
            for told in _difference(part, _part(anew, part), _part(stored, part))
        ]
        for reason, parts in _REASONS.items()
    }
    return {reason: told for reason, told in found.items() if told}


def _difference(part: str, anew: Any, stored: Any) -> Iterator[str]:  # noqa: ANN401  JSON values
    """Nothing where they are equal; of settings, the first few that differ."""
    if anew == stored:
        return
    if not isinstance(anew, dict) or not isinstance(stored, dict):
        yield f"{part} {_shown(stored)}, now {_shown(anew)}"
        return
    names = [
        name
        for name in sorted(anew.keys() | stored.keys())
        if anew.get(name, _ABSENT) != stored.get(name, _ABSENT)
    ]
    for name in names[:_SHOWN_SETTINGS]:
        yield f"{name} {_shown(stored.get(name, _ABSENT))}, now {_shown(anew.get(name, _ABSENT))}"
    if len(names) > _SHOWN_SETTINGS:
        yield f"{len(names) - _SHOWN_SETTINGS} more of the {part.replace('_', ' ')}"


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
    """Short enough for a line."""
    if isinstance(value, dict):
        return f"of {len(value)} values"
    text = str(value)
    return text[:12] if len(text) > _SHOWN_LENGTH else text
