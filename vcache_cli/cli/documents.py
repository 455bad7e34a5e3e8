"""JSON documents: the envelope, the caps, and the schemas that ship with the package."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING, Any

from vcache_cli.buckets import is_url
from vcache_cli.errors import UsageError
from vcache_cli.items import display_path
from vcache_cli.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Final

__all__ = ["LIST_CAP", "dump", "envelope", "schema", "schema_names"]

LIST_CAP: Final = 1000
"""Longest list of items in a document; the run file has them all."""

_CAPPED: Final = ("failures", "warnings", "cold_items", "plan", "problems", "failed")


def envelope(
    name: str, fields: Mapping[str, Any], *, store: Path | str | None = None
) -> dict[str, Any]:
    """The document ``vcache.<name>/1``: long lists are cut and counted, None is left out.

    Args:
        name: of the document.
        fields: beside those that all have.
        store: a folder, or as text the URL of a store in a bucket.
    """
    head = {
        "schema": f"vcache.{name}/1",
        "vcache_version": __version__,
        "generated_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "store": None if store is None else _shown(store),
    }
    body = {key: value for key, value in fields.items() if key not in head}
    for key in _CAPPED:
        found = body.get(key)
        if isinstance(found, list | tuple) and len(found) > LIST_CAP:
            cut = len(found) - LIST_CAP + int(body.get(f"{key}_omitted") or 0)
            body |= {key: list(found[:LIST_CAP]), f"{key}_omitted": cut}
    return {key: _known(value) for key, value in (head | body).items() if value is not None}


def _shown(store: Path | str) -> str:
    is_place = isinstance(store, str) and is_url(store)
    return display_path(str(store) if is_place else os.path.abspath(store))


def dump(document: Mapping[str, Any]) -> str:
    """The document on one line of ASCII."""
    return json.dumps(document, allow_nan=False)


def schema_names() -> list[str]:
    """Names of the documents that have a schema."""
    folder = resources.files(__package__) / "schemas"
    return sorted(
        path.name.removesuffix(".json") for path in folder.iterdir() if path.name.endswith(".json")
    )


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of ``vcache.<name>/1``.

    Raises:
        UsageError: there is none of that name.
    """
    short = name.removeprefix("vcache.").removesuffix("/1")
    if short not in schema_names():
        known = ", ".join(schema_names())
        raise UsageError(f"no schema `{name}`", hint=f"there are: {known}")
    path = resources.files(__package__) / "schemas" / f"{short}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _known(value: Any) -> Any:  # noqa: ANN401  any JSON value
    if isinstance(value, dict):
        return {key: _known(part) for key, part in value.items() if part is not None}
    return [_known(part) for part in value] if isinstance(value, list | tuple) else value
