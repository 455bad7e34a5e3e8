"""Recipes kept beside entries whose files cannot say how they were made. Hints, never proof."""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from vcache_cli.digest import canonical_json, digest_bytes
from vcache_cli.errors import VcacheError
from vcache_cli.store.files import DIRECTORY_FLAGS, READ_FLAGS, TEMP_FLAGS, OsFiles, write_all
from vcache_cli.store.meta import vcache_dir
from vcache_cli.store.own import own_folder
from vcache_cli.store.owners import is_planted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Final

    from vcache_cli.store.meta import StoreRoot

__all__ = ["keep_recipe", "kept_recipes"]

_FOLDER: Final = "recipes"
_NAME: Final = re.compile(r"([0-9a-f]{64})\.json", re.ASCII)
_MAX_BYTES: Final = 64 * 1024
_MAX_READ: Final = 256
"""Recipes of a store that are looked at: more than anyone has models and settings."""


def keep_recipe(root: StoreRoot, recipe: Mapping[str, Any]) -> None:
    """Write `recipe` down, unless it is there. What cannot be written is given up.

    Nothing is written where the entries' own files say it.
    """
    if root.layout.checksum_field is not None:
        return  # files that have our checksum have our provenance
    data = canonical_json(recipe)
    name = f"{digest_bytes(data)}.json"
    with suppress(OSError, VcacheError), own_folder(root, _FOLDER) as folder:
        if len(data) > _MAX_BYTES or _read(folder, name) == data:
            return
        _write(folder, name, data)


def kept_recipes(root: StoreRoot) -> Iterator[Mapping[str, Any]]:
    """Each recipe that was kept and is whole; nothing is made or changed."""
    if is_planted(root.path):
        return
    try:
        folder = os.open(vcache_dir(root.path) / _FOLDER, DIRECTORY_FLAGS | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        names = sorted(filter(_NAME.fullmatch, os.listdir(folder)))[:_MAX_READ]
        read = [(name, _read(folder, name)) for name in names]
    finally:
        os.close(folder)
    for name, data in read:
        value = _parsed(data) if digest_bytes(data) == name.removesuffix(".json") else None
        if value is not None:
            yield value


def _parsed(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _read(folder: int, name: str) -> bytes:
    """Empty for what is not there, or no file."""
    try:
        fd = os.open(name, READ_FLAGS, dir_fd=folder)
    except OSError:
        return b""
    try:
        return os.read(fd, _MAX_BYTES + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(fd)


def _write(folder: int, name: str, data: bytes) -> None:
    """Whole or not at all; not synced, since it may be lost."""
    temp = f"{name}.{secrets.token_hex(8)}"
    try:
        fd = os.open(temp, TEMP_FLAGS, 0o600, dir_fd=folder)
        try:
            write_all(OsFiles(), fd, data)
            os.fchmod(fd, 0o444)
        finally:
            os.close(fd)
        os.rename(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(OSError):  # renamed away, or never made
            os.unlink(temp, dir_fd=folder)
