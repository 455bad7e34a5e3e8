"""Between two recipes: which part differs, in a sentence each. Pure; any JSON is borne."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Final

__all__ = ["Difference", "differences", "shown"]

_ORDER: Final = (
    *("target_options", "stage", "target", "profile", "encoder.fingerprint", "encoder"),
    *("family", "settings", "profile_revision", "family_revision"),
)
"""What people can change comes first; a part that is not named comes last."""
_TOLD: Final[Mapping[str, str]] = {
    "target_options.model_name": "stored for --model-name {stored}, the server would ask for"
    " {wanted}",
    "encoder.fingerprint": "weights differ: {stored} -> {wanted}",
    "encoder.output": "output of the encoder differs: {stored} -> {wanted}",
    "encoder.stored_dtype": "stored dtype differs: {stored} -> {wanted}",
    "encoder.compute_dtype": "compute dtype differs: {stored} -> {wanted}",
    "encoder.revision": "our code of the encoder was revised: {stored} -> {wanted}",
    "profile_revision": "our rules of the profile were revised: {stored} -> {wanted}",
    "family_revision": "our code of the family was revised: {stored} -> {wanted}",
}
_TOLD_BELOW: Final = (
    ("settings.clip.", "video setting differs: {name} {stored} -> {wanted}"),
    ("settings.", "processor setting differs: {name} {stored} -> {wanted}"),
    ("target_options.", "server option differs: {name} {stored} -> {wanted}"),
    ("versions.", "{name} differs: {stored} -> {wanted}"),
    ("", "{name} differs: {stored} -> {wanted}"),
)
_RULE: Final = ".rule"
"""Which settings there are beside it follows from it."""
_MAX_DEPTH: Final = 4
_MAX_PARTS: Final = 1_000
_DIGEST_LENGTH: Final = 64
_SHOWN_DIGEST: Final = 12
_SHOWN_LENGTH: Final = 120
_ABSENT: Final = object()

_brief: Final = reprlib.Repr()
_brief.maxlevel = 3
_brief.maxother = _brief.maxstring = _brief.maxlong = 40


@dataclass(frozen=True, slots=True)
class Difference:
    """One part of a recipe that is not what was asked for."""

    part: str
    """Such as ``settings.max_pixels`` or ``encoder.fingerprint``."""
    stored: str
    """``absent`` where it is not there; so is `wanted`."""
    wanted: str
    told: str
    """A sentence without its end."""

    def as_json(self) -> dict[str, str]:
        """The fields of an element of ``differs_in``."""
        return {
            "part": self.part,
            "stored": self.stored,
            "wanted": self.wanted,
            "message": self.told,
        }


def differences(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> tuple[Difference, ...]:
    """What differs between two recipes, as JSON; the part that people can change comes first.

    Where the stages differ, nothing is said of the encoder that one of them has.

    >>> recipe = {"settings": {"max_pixels": 1003520}}
    >>> differences({"settings": {"max_pixels": 12845056}}, recipe)[0].told
    'processor setting differs: max_pixels 1003520 -> 12845056'
    """
    mine, theirs = dict(_leaves(wanted)), dict(_leaves(stored))
    names = list(dict.fromkeys([*mine, *theirs]))[:_MAX_PARTS]
    if isinstance(wanted.get("encoder"), dict) != isinstance(stored.get("encoder"), dict):
        names = [name for name in names if name.partition(".")[0] != "encoder"]
    pairs = [(name, mine.get(name, _ABSENT), theirs.get(name, _ABSENT)) for name in names]
    differing = [pair for pair in pairs if not _equal(*pair[1:])]
    telling = [pair for pair in differing if not _says_nothing(*pair[1:])] or differing
    found = [_difference(*pair) for pair in telling]
    return tuple(sorted(found, key=lambda each: _weight(each.part)))


def _leaves(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:  # noqa: ANN401  any JSON value
    if not isinstance(value, dict) or not value or depth == _MAX_DEPTH:
        yield name, value
        return
    for key, part in value.items():
        yield from _leaves(part, f"{name}.{key}" if name else str(key), depth + 1)


def _equal(one: Any, other: Any) -> bool:  # noqa: ANN401  any JSON values
    try:
        return type(one) is type(other) and bool(one == other)
    except RecursionError:  # a file may nest as deeply as its header is long
        return False


def _says_nothing(wanted: object, stored: object) -> bool:
    """True where one lacks what the other has as none."""
    return all(each is None or each is _ABSENT for each in (wanted, stored))


def _difference(part: str, wanted: Any, stored: Any) -> Difference:  # noqa: ANN401  any JSON values
    values = {
        name: "not set" if value is _ABSENT else shown(value)
        for name, value in (("stored", stored), ("wanted", wanted))
    }
    short = f"{part:.{_SHOWN_LENGTH}}"
    told = _TOLD.get(part)
    if told is None:
        start, told = next(each for each in _TOLD_BELOW if part.startswith(each[0]))
        values["name"] = short.removeprefix(start).replace("_", " " if not start else "_")
    return Difference(short, shown(stored), shown(wanted), told.format(**values))


def shown(value: Any) -> str:  # noqa: ANN401  any JSON value
    """`value` short enough for a sentence.

    >>> shown("ab" * 32), shown([0.5, 0.5]), shown(None), shown(True)
    ('abababababab', '[0.5, 0.5]', 'none', 'true')
    """
    if value is _ABSENT:
        return "absent"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        is_digest = len(value) == _DIGEST_LENGTH and not value.strip("0123456789abcdef")
        return value[: _SHOWN_DIGEST if is_digest else _SHOWN_LENGTH]
    return _brief.repr(value)


def _weight(part: str) -> tuple[int, bool]:
    names = (part, part.partition(".")[0])
    place = min((_ORDER.index(each) for each in names if each in _ORDER), default=len(_ORDER))
    return place, not part.endswith(_RULE)
