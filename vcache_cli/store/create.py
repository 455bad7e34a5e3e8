"""Making a directory a store."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from vcache_cli.digest import canonical_json
from vcache_cli.errors import NotAStoreError, RefusedError, UsageError
from vcache_cli.store.files import (
    DIRECTORY_FLAGS,
    TEMP_FLAGS,
    FileOps,
    OsFiles,
    explained,
    make_directory,
    sync_directory,
    write_all,
)
from vcache_cli.store.meta import FORMAT, StoreMeta, read_meta, read_small, vcache_dir
from vcache_cli.store.own import in_place
from vcache_cli.store.owners import anyone_may_write, refuse_planted

__all__ = ["adopt_meta", "create_meta", "refuse_others", "write_meta"]

_NAME: Final = ".vcache/store.json"
_FOLDERS: Final = ("tmp", "runs", "quarantine", "locks")
_TAG: Final = (
    b"Signature: 8a477f597d28d172789f06886806bc55\n"
    b"# This file is a cache directory tag created by vcache.\n"
    b"# For information about cache directory tags see https://bford.info/cachedir/\n"
)
_NO_PLACE: Final = frozenset(
    {errno.ENOTDIR, errno.EEXIST, errno.ENOENT, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL}
)
"""A path below a file, below `/proc`, too long, or through links that loop."""
_NO_STRANGERS: Final = frozenset({".vcache", "lost+found", ".DS_Store"})
"""Names in a directory that we may still make a store of."""


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
        UsageError: it is a store of another target.
        RefusedError: one with other options; a directory that holds other things, or one that
            others may write to.
        NotAStoreError: not a directory, or a damaged `store.json`.
        FormatTooNewError, AccessError, StoreFullError: see `read_meta`, `files.explained`.
    """
    wanted = StoreMeta(FORMAT, secrets.token_hex(16), target, dict(target_options or {}), shared)
    if not os.path.lexists(vcache_dir(path) / "store.json"):
        files = files or OsFiles()
        with explained(files, os.fspath(path)):
            _make_root(files, os.path.abspath(path), wanted)
        write_meta(path, wanted, files=files)
    return _agreed(path, wanted)


def adopt_meta(
    path: str | os.PathLike[str],
    *,
    target: str,
    target_options: Mapping[str, Any] | None = None,
) -> StoreMeta:
    """Make a server's own directory, which is there, a store: it is filled beside the server.

    What lies there stays as it is, and the directory's mode too.

    Raises:
        UsageError: it is a store of another target.
        RefusedError, NotAStoreError, FormatTooNewError, AccessError, StoreFullError: see
            `create_meta`.
    """
    wanted = StoreMeta(FORMAT, secrets.token_hex(16), target, dict(target_options or {}))
    if not os.path.lexists(vcache_dir(path) / "store.json"):
        write_meta(path, wanted)
    return _agreed(path, wanted)


def _agreed(path: str | os.PathLike[str], wanted: StoreMeta) -> StoreMeta:
    found = read_meta(path)  # another process may have been faster: the first one stands
    if found.target != wanted.target:
        raise UsageError(
            f"{os.fspath(path)} is a store of target `{found.target}`, not `{wanted.target}`",
            hint=f"say `--target {found.target}`, or name another --store",
        )
    if wanted.target_options and not found.target_options:
        found = _completed(path, found, wanted)
    refuse_others(path, found, wanted.target_options)
    return found


def refuse_others(
    path: str | os.PathLike[str], meta: StoreMeta, options: Mapping[str, Any]
) -> None:
    """Refuse to fill the store at `path`, which says `meta`, with entries of other `options`.

    Raises:
        RefusedError: they differ.
    """
    if told := meta.differences(options):
        raise RefusedError(
            f"{os.fspath(path)} is of another model: {told}",
            hint=f"name another --store: one of target `{meta.target}` is of one model",
        )


def _completed(path: str | os.PathLike[str], found: StoreMeta, wanted: StoreMeta) -> StoreMeta:
    """A server's own store that was looked after before it was filled: its options now stand."""
    meta = replace(found, store_id=found.store_id or wanted.store_id)
    meta = replace(meta, target_options=wanted.target_options)
    files = OsFiles()
    with explained(files, os.fspath(path)):
        _write(files, os.fspath(path), _NAME, _document(meta), publish=files.replace)
    return read_meta(path)


def _make_root(files: FileOps, path: str, meta: StoreMeta) -> None:
    try:
        _make_above(files, os.path.dirname(path))
        made = make_directory(files, path, meta.modes.directory)
    except OSError as error:
        if error.errno not in _NO_PLACE:
            raise
        raise NotAStoreError(
            f"{path} cannot be made: {error.strerror}", hint="name another place for the store"
        ) from error
    if made:
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


def _make_above(files: FileOps, path: str) -> None:
    """Make the folders that a new store lies in; their names are durable, as the store's is."""
    made, above = [], path
    while not os.path.isdir(above):
        above = os.path.dirname(above)
        made.append(above)
    os.makedirs(path, exist_ok=True)
    for each in made:
        sync_directory(files, each)


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
        return read_small(os.path.join(path, "CACHEDIR.TAG")) == _TAG
    return False


def write_meta(
    path: str | os.PathLike[str], meta: StoreMeta, *, files: FileOps | None = None
) -> None:
    """Make what is missing of `.vcache` and of the tag; what is there stays as it is.

    A directory that everyone may write to gets no tag: it would speak for strangers' files.

    Raises:
        StoreFullError, AccessError, OSError: see `files.explained`.
        RefusedError: everyone may write to it, and its ``.vcache`` is another user's.
        NotAStoreError: something else lies in the place of a folder of ours.
    """
    refuse_planted(path)
    files = files or OsFiles()
    root, own = os.fspath(path), str(vcache_dir(path))
    with explained(files, root):
        for folder in (own, *(f"{own}/{name}" for name in _FOLDERS)):
            if not make_directory(files, folder, meta.modes.directory):
                _check_folder(files, folder)
        if not anyone_may_write(root):
            _write_new(files, root, "CACHEDIR.TAG", _TAG)
        _write_new(files, root, _NAME, _document(meta))
        sync_directory(files, own)
        sync_directory(files, root)


def _check_folder(files: FileOps, path: str) -> None:
    with in_place(path, "a folder"):
        if not stat.S_ISDIR(files.lstat(path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)


def _document(meta: StoreMeta) -> bytes:
    return canonical_json(meta.as_json()) + b"\n"


def _write_new(files: FileOps, root: str, name: str, data: bytes) -> None:
    """Write a file whole or not at all; one that is there stays."""
    _write(files, root, name, data, publish=partial(_link_new, files))


def _write(
    files: FileOps, root: str, name: str, data: bytes, *, publish: Callable[[str, str], None]
) -> None:
    """Write a file whole or not at all; `publish` gives it its name."""
    temp, final = f"{root}/.vcache/tmp/{secrets.token_hex(16)}", f"{root}/{name}"
    try:
        fd = files.open(temp, TEMP_FLAGS, 0o600)
        try:
            write_all(files, fd, data)
            files.fchmod(fd, 0o444)
            files.fsync(fd)
        finally:
            files.close(fd)
        publish(temp, final)
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
