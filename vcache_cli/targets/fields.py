"""Metadata of a file to the fields of a `Provenance`; whatever is odd is no entry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.digest import DIGEST_LENGTH, canonical_json
from vcache_cli.entry import Provenance
from vcache_cli.errors import InvalidEntryError
from vcache_cli.items import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["HEX", "count_of", "kind_of", "provenance_of"]

HEX: Final = "0123456789abcdef"
_KINDS: Final = {kind.value: kind for kind in Kind}
_MAX_COUNT_DIGITS: Final = 18


def provenance_of(metadata: Mapping[str, str]) -> Provenance:
    """What the fields `vcache.*` say; each of them may be missing.

    Raises:
        InvalidEntryError: a field that is not what it should be.
    """
    return Provenance(
        source_sha256=_digest(metadata.get("vcache.source_sha256")),
        recipe=_object(metadata.get("vcache.recipe", "{}"), "recipe"),
        model=metadata.get("vcache.model"),
        kind=kind_of(metadata.get("vcache.kind")),
        num_tokens=count_of(metadata.get("vcache.num_tokens")),
        created=metadata.get("vcache.created"),
        versions=_texts(metadata.get("vcache.versions", "{}")),
    )


def _digest(text: str | None) -> str | None:
    if text is not None and (len(text) != DIGEST_LENGTH or text.strip(HEX)):
        raise InvalidEntryError("the source is no digest")
    return text


def kind_of(text: str | None) -> Kind | None:
    """The kind that a field names; None of none.

    Raises:
        InvalidEntryError: there is no such kind.
    """
    if text is None:
        return None
    if text not in _KINDS:
        raise InvalidEntryError(f"unknown kind {text[:16]!r}")
    return _KINDS[text]


def count_of(text: str | None) -> int | None:
    """The number of tokens that a field gives; None of none.

    Raises:
        InvalidEntryError: it is no number.
    """
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_COUNT_DIGITS):
        raise InvalidEntryError(f"token count {text[:16]!r} is not a number")
    return int(text)


def _texts(text: str) -> dict[str, str]:
    value = _object(text, "versions")
    if not all(type(each) is str for each in value.values()):
        raise InvalidEntryError("the versions are not strings")
    return value


def _object(text: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidEntryError(f"the {name} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidEntryError(f"the {name} is not a JSON object")
    try:
        canonical_json(value)
    except ValueError as error:  # a number that Python reads and JSON does not have
        raise InvalidEntryError(f"the {name} is not JSON: {error}") from error
    return value
