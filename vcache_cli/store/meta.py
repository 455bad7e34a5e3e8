"""What makes a directory a store: `.vcache/store.json`, its policy of modes, its trust."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from vcache_cli.digest import canonical_json
from vcache_cli.errors import (
    AccessError,
    FormatTooNewError,
    NotAStoreError,
    RefusedError,
    UsageError,
)
from vcache_cli.protocols import Layout
from vcache_cli.store.files import (
    DIRECTORY_FLAGS,
    READ_FLAGS,
    TEMP_FLAGS,
    FileOps,
    OsFiles,
    explained,
    make_directory,
    sync_directory,
    write_all,
)

__all__ = [
    "FORMAT",
    "Modes",
    "StoreMeta",
    "StoreRoot",
    "check_trust",
    "create_meta",
    "read_meta",
    "vcache_dir",
    "write_meta",
]

FORMAT: Final = 1
"""Number of the store's format: what lies where. Entries carry a number of their own."""

_FOLDERS: Final = ("tmp", "runs", "quarantine", "locks")
_MAX_META_BYTES: Final = 65_536
_TAG: Final = (
    b"Signature: 8a477f597d28d172789f06886806bc55\n"
    b"# This file is a cache directory tag created by vcache.\n"
    b"# For information about cache directory tags see https://bford.info/cachedir/\n"
)
_NO_STRANGERS: Final = frozenset({".vcache", "lost+found", ".DS_Store"})
"""Names in a directory that we may still make a store of."""


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


def vcache_dir(path: str | os.PathLike[str]) -> Path:
    """Where vcache's own things lie in a store."""
    return Path(path, ".vcache")


# --- reading ---------------------------------------------------------------------------------


def read_meta(path: str | os.PathLike[str]) -> StoreMeta:
    """What the store at `path` says of itself.

    Raises:
        NotAStoreError: there is no store; the message says what is there.
        FormatTooNewError: written by a newer vcache.
        AccessError: it may not be read.
    """
    file = vcache_dir(path) / "store.json"
    try:
        raw = _read_small(str(file))
    except PermissionError as error:
        raise AccessError(
            f"{file}: {error.strerror}", hint="`vcache doctor` shows owner and mode"
        ) from error
    except OSError as error:
        raise NotAStoreError(
            f"{os.fspath(path)} is no store: {_found(path, error)}",
            hint="`vcache warm SOURCE --model MODEL --store DIR` makes one",
        ) from error
    return _parse_meta(raw, str(file))


def _read_small(path: str) -> bytes:
    fd = os.open(path, READ_FLAGS)
    with os.fdopen(fd, "rb") as file:
        return file.read(_MAX_META_BYTES + 1)


def _found(path: str | os.PathLike[str], error: OSError) -> str:
    if not os.path.lexists(path):
        return "there is nothing"
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


# --- making ----------------------------------------------------------------------------------


def create_meta(
    path: str | os.PathLike[str],
    *,
    target: str,
    target_options: Mapping[str, Any] | None = None,
    shared: str = "private",
    files: FileOps | None = None,
) -> StoreMeta:
    """Make `path` a store, or find that it is one already.

    Raises:
        UsageError: it is a store of another target, or with other options.
        RefusedError: a directory that holds other things, or one that others may write to.
        NotAStoreError: not a directory, or a damaged `store.json`.
        FormatTooNewError, AccessError, StoreFullError: see `read_meta`, `files.explained`.
    """
    wanted = StoreMeta(FORMAT, secrets.token_hex(16), target, dict(target_options or {}), shared)
    if not os.path.lexists(vcache_dir(path) / "store.json"):
        files = files or OsFiles()
        with explained(files, os.fspath(path)):
            _make_root(files, os.path.abspath(path), wanted)
        write_meta(path, wanted, files=files)
    found = read_meta(path)  # another process may have been faster: the first one stands
    if (found.target, dict(found.target_options)) != (target, dict(wanted.target_options)):
        raise UsageError(
            f"{os.fspath(path)} is a store of target `{found.target}` with options "
            f"{dict(found.target_options)}, not `{target}` with {dict(wanted.target_options)}",
            hint="use another --store for another target",
        )
    return found


def _make_root(files: FileOps, path: str, meta: StoreMeta) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if make_directory(files, path, meta.modes.directory):
        sync_directory(files, os.path.dirname(path))
        return
    try:
        names = set(os.listdir(path))
    except (NotADirectoryError, FileNotFoundError) as error:  # a file, or a link to nothing
        raise NotAStoreError(f"{path} is no store: {error.strerror}") from error
    if names - _NO_STRANGERS and not _has_our_tag(path):
        raise RefusedError(
            f"{path} holds other things ({', '.join(sorted(names)[:3])}) and is no store",
            hint="name an empty or new directory",
        )
    facts = os.stat(path)
    if meta.shared == "private" and facts.st_uid == os.geteuid() and facts.st_mode & 0o022:
        _close_to_others(files, path, facts.st_mode)


def _close_to_others(files: FileOps, path: str, mode: int) -> None:
    """An empty directory that we own and make a store of follows the store's policy."""
    fd = files.open(path, DIRECTORY_FLAGS)
    try:
        files.fchmod(fd, stat.S_IMODE(mode) & ~0o022)
    finally:
        files.close(fd)


def _has_our_tag(path: str) -> bool:
    """A store whose `.vcache` someone deleted still has its tag."""
    with contextlib.suppress(OSError):
        return _read_small(os.path.join(path, "CACHEDIR.TAG")) == _TAG
    return False


def write_meta(
    path: str | os.PathLike[str], meta: StoreMeta, *, files: FileOps | None = None
) -> None:
    """Make what is missing of `.vcache` and of the tag; what is there stays as it is.

    Raises:
        StoreFullError, AccessError, OSError: see `files.explained`.
    """
    files = files or OsFiles()
    root, own = os.fspath(path), str(vcache_dir(path))
    with explained(files, root):
        make_directory(files, own, meta.modes.directory)
        for name in _FOLDERS:
            make_directory(files, f"{own}/{name}", meta.modes.directory)
        _write_new(files, root, "CACHEDIR.TAG", _TAG)
        _write_new(files, root, ".vcache/store.json", canonical_json(meta.as_json()) + b"\n")
        sync_directory(files, own)
        sync_directory(files, root)


def _write_new(files: FileOps, root: str, name: str, data: bytes) -> None:
    """Write a file whole or not at all; one that is there stays."""
    temp, final = f"{root}/.vcache/tmp/{secrets.token_hex(16)}", f"{root}/{name}"
    try:
        fd = files.open(temp, TEMP_FLAGS, 0o600)
        try:
            write_all(files, fd, data)
            files.fchmod(fd, 0o444)
            files.fsync(fd)
        finally:
            files.close(fd)
        _link_new(files, temp, final)
    finally:
        with contextlib.suppress(OSError):  # renamed away, or never made
            files.unlink(temp)


def _link_new(files: FileOps, temp: str, final: str) -> None:
    try:
        files.link(temp, final)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}:
            raise
        if not os.path.lexists(final):  # a filesystem without links: a small race remains
            files.replace(temp, final)


# --- trust -----------------------------------------------------------------------------------


def check_trust(root: StoreRoot, *, trusted_uids: frozenset[int] = frozenset()) -> None:
    """Refuse a store that someone else could have filled: a checksum is easily forged.

    A parent that others may write to needs no check: what they can put there is theirs, and the
    owner's check refuses it.

    Raises:
        RefusedError: others may write to the root, or it belongs to someone else.
        AccessError: the root cannot be examined.
    """
    try:
        facts = os.stat(root.path)
    except OSError as error:
        raise AccessError(f"{root.path}: {error.strerror}") from error
    others = 0o002 if root.meta.shared == "group" else 0o022
    if facts.st_mode & others:
        raise RefusedError(
            f"{root.path} can be written by others (mode {stat.S_IMODE(facts.st_mode):04o})",
            hint=f"chmod {'o' if others == 0o002 else 'go'}-w {root.path}",
        )
    us = os.geteuid()
    if root.meta.shared == "private" and us and facts.st_uid not in {us, 0, *trusted_uids}:
        raise RefusedError(
            f"{root.path} belongs to uid {facts.st_uid}, this process runs as uid {us}",
            hint=f"run as its owner, or: sudo chown -R {us} {root.path}",
        )
