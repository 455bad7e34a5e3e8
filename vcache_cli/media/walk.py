"""A folder's files, streamed folder by folder."""

from __future__ import annotations

import os
import stat
from fnmatch import fnmatchcase
from itertools import groupby
from typing import TYPE_CHECKING

from vcache_cli.folders import FolderFiles, facts_of
from vcache_cli.items import MediaItem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Final

__all__ = ["is_excluded", "is_tagged_cache", "walk"]

CACHE_TAG: Final = "CACHEDIR.TAG"
CACHE_SIGNATURE: Final = b"Signature: 8a477f597d28d172789f06886806bc55"

_MOST_FILES: Final = 2048
"""Files found at a time: the first of a large folder do not wait for its last."""
_FEW_FILES: Final = 8
"""Of a folder with fewer, each is asked of alone: many folders can then be asked of at once."""

_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY


def walk(top: str, *, exclude: Sequence[str] = ()) -> Iterator[Sequence[MediaItem]]:
    """Items below `top`, many at a time: a folder's files by name, then its folders by name.

    A folder that cannot be listed is an item itself, so that its failure is reported.
    """
    pending = [top]
    while pending:
        folder = pending.pop()
        try:
            handle, files, folders = _list_folder(folder, exclude)
        except OSError:
            yield (MediaItem(folder),)
            continue
        prefix = os.path.join(folder, "")
        try:
            if folder != top and CACHE_TAG in files and is_tagged_cache(folder):
                continue
            for begin in range(0, len(files), _MOST_FILES):
                yield from _found(prefix, files[begin : begin + _MOST_FILES], handle)
        finally:
            os.close(handle)
        pending.extend(prefix + name for name in reversed(folders))


def is_excluded(path: str, exclude: Sequence[str]) -> bool:
    """True where a glob of `exclude` matches the name, or the whole path if it holds ``/``."""
    name = os.path.basename(path)
    return any(fnmatchcase(path if "/" in glob else name, glob) for glob in exclude)


def is_tagged_cache(folder: str) -> bool:
    """True where `folder` says by a valid ``CACHEDIR.TAG`` that it is a cache."""
    try:
        # O_NONBLOCK: a FIFO by that name would wait for a writer for ever.
        handle = os.open(os.path.join(folder, CACHE_TAG), _FLAGS)
        with os.fdopen(handle, "rb") as file:
            return file.read(len(CACHE_SIGNATURE)) == CACHE_SIGNATURE
    except OSError:
        return False


def _list_folder(folder: str, exclude: Sequence[str]) -> tuple[int, list[str], list[str]]:
    """A descriptor of the folder, and the names of the files and of the folders in it."""
    handle = os.open(folder, _FOLDER_FLAGS)
    try:
        files, folders = _names_in(handle, folder, exclude)
    except OSError:
        os.close(handle)
        raise
    return handle, files, folders


def _names_in(handle: int, folder: str, exclude: Sequence[str]) -> tuple[list[str], list[str]]:
    files: list[str] = []
    folders: list[str] = []
    with os.scandir(handle) as entries:
        for entry in entries:
            name = entry.name
            if name[0] == "." or (exclude and is_excluded(os.path.join(folder, name), exclude)):
                continue
            if _is_folder(entry):
                if not entry.is_symlink():  # links can loop, and lead out of what was named
                    folders.append(name)
            else:
                files.append(name)
    return sorted(files), sorted(folders)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself, or a name that cannot be examined: the worker says why
        return False


def _found(prefix: str, names: Sequence[str], folder: int) -> Iterator[Sequence[MediaItem]]:
    """The files as they stand together; what is no file, or cannot be examined, stands alone."""
    stats = _examined(names, folder)
    plain = [status is not None and stat.S_ISREG(status.st_mode) for status in stats]
    begin = 0
    for is_plain, run in groupby(plain):
        end = begin + sum(1 for _ in run)
        if is_plain:
            facts = tuple(map(facts_of, filter(None, stats[begin:end])))
            files = FolderFiles(prefix, names[begin:end], facts)
            yield files if len(files) >= _FEW_FILES else [*files]
        else:
            yield [MediaItem(prefix + name) for name in names[begin:end]]
        begin = end


def _examined(names: Sequence[str], folder: int) -> list[os.stat_result | None]:
    found: list[os.stat_result | None] = []
    for name in names:
        try:
            found.append(os.stat(name, dir_fd=folder))  # no long path to follow for each file
        except OSError:
            found.append(None)
    return found
