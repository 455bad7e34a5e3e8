"""What a store says of itself, in `.vcache/store.json`, and its policy of modes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from vcache_cli.errors import AccessError, FormatTooNewError, NotAStoreError
from vcache_cli.protocols import Layout
from vcache_cli.store.files import READ_FLAGS

__all__ = [
    "FORMAT",
    "Modes",
    "StoreMeta",
    "StoreRoot",
    "differences",
    "read_meta",
    "read_small",
    "vcache_dir",
]

FORMAT: Final = 1
"""Number of the store's format: what lies where. Entries carry a number of their own."""

_MAX_META_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Modes:
    """Permission bits, set explicitly, so that no umask decides them."""

    directory: int
    entry: int
    lock: int


_MODES: Final = {"private": Modes(0o700, 0o444, 0o600), "group": Modes(0o2770, 0o440, 0o660)}


@dataclass(frozen=True, slots=True)
class StoreMeta:
    """What `store.json` says; written once."""

    format: int
    store_id: str
    """32 hex, random; empty for a server's own store, which vcache never wrote."""
    target: str
    target_options: Mapping[str, Any] = field(default_factory=dict)
    shared: str = "private"
    """``private``: our user alone writes; ``group``: members of the directory's group do too."""

    @property
    def modes(self) -> Modes:
        """Permission bits of what is made in the store."""
        return _MODES[self.shared]

    def differences(self, options: Mapping[str, Any]) -> str:
        """What of the target's options is other in `options`; empty: nothing."""
        return differences(self.target_options, options)

    def as_json(self) -> dict[str, Any]:
        """The document of `store.json`."""
        return {
            "format": self.format,
            "store_id": self.store_id,
            "target": self.target,
            "target_options": dict(self.target_options),
            "shared": self.shared,
        }


@dataclass(frozen=True, slots=True)
class StoreRoot:
    """A store's directory and the rules that its files follow. Picklable."""

    path: Path
    layout: Layout
    meta: StoreMeta


def differences(mine: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """What of a target's options `mine` is other in `options`; empty: nothing."""
    return "; ".join(
        f"{name} {mine.get(name)!r:.80}, not {options.get(name)!r:.80}"
        for name in sorted(mine.keys() | options.keys())
        if mine.get(name) != options.get(name)
    )


def vcache_dir(path: str | os.PathLike[str]) -> Path:
    """Where vcache's own things lie in a store."""
    return Path(path, ".vcache")


def read_meta(path: str | os.PathLike[str]) -> StoreMeta:
    """What the store at `path` says of itself.

    Raises:
        NotAStoreError: there is no store; the message says what is there.
        FormatTooNewError: written by a newer vcache.
        AccessError: it may not be read.
    """
    file = vcache_dir(path) / "store.json"
    try:
        raw = read_small(str(file))
    except PermissionError as error:
        raise AccessError(
            f"{file}: {error.strerror}",
            hint="`vcache doctor` shows owner and mode; or name another place with --store",
        ) from error
    except OSError as error:
        raise NotAStoreError(
            f"{os.fspath(path)} is no store: {_found(path, error)}",
            hint="`vcache warm SOURCE --model MODEL --store DIR` makes one",
        ) from error
    return _parse_meta(raw, str(file))


def read_small(path: str) -> bytes:
    """A file of ours, one byte more than it may have at most. Follows no link."""
    fd = os.open(path, READ_FLAGS)
    with os.fdopen(fd, "rb") as file:
        return file.read(_MAX_META_BYTES + 1)


def _found(path: str | os.PathLike[str], error: OSError) -> str:
    if not os.path.lexists(path):
        return "no such folder"
    if not os.path.isdir(path):
        return "not a directory"
    if isinstance(error, FileNotFoundError):
        return "a directory without `.vcache/store.json`"
    return f"`.vcache/store.json` cannot be read: {error.strerror}"


def _parse_meta(raw: bytes, name: str) -> StoreMeta:
    try:
        value = json.loads(raw) if len(raw) <= _MAX_META_BYTES else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or type(value.get("format")) is not int:
        raise NotAStoreError(
            f"{name}: expected a JSON object with a format number, found {raw[:40]!r}"
        )
    if value["format"] > FORMAT:
        raise FormatTooNewError(
            f"{name}: store format {value['format']}, this vcache knows up to {FORMAT}",
            hint="upgrade vcache-cli",
        )
    return _checked_meta(value, name)


def _checked_meta(value: Mapping[str, Any], name: str) -> StoreMeta:
    expected = {"store_id": str, "target": str, "target_options": dict, "shared": str}
    for key, kind in expected.items():
        if type(value.get(key)) is not kind:
            raise NotAStoreError(
                f"{name}: `{key}` should be a {kind.__name__}, found {value.get(key)!r:.40}"
            )
    if value["format"] < 1 or value["shared"] not in _MODES:
        raise NotAStoreError(
            f"{name}: format {value['format']} or policy {value['shared']!r:.40} is unknown"
        )
    return StoreMeta(value["format"], *(value[key] for key in expected))
