"""Globs with ``**``, matched folder by folder, in order, without listing everything first."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Final

__all__ = ["has_magic", "matches"]

_MAGIC: Final = re.compile(r"[*?[]")


def has_magic(spec: str) -> bool:
    """True where `spec` holds ``*``, ``?`` or ``[``."""
    return _MAGIC.search(spec) is not None


def matches(pattern: str) -> Iterator[str]:
    """Existing paths that `pattern` matches, sorted within each folder.

    ``**`` stands for any number of folders, none included. Wildcards match no leading dot, and
    ``**`` goes through no hidden folder and no link.
    """
    parts = [part for part in pattern.split("/") if part]
    return _below("/" if pattern.startswith("/") else "", parts)


def _below(base: str, parts: Sequence[str]) -> Iterator[str]:
    if not parts:
        yield base
        return
    first, rest = parts[0], parts[1:]
    if first == "**":
        yield from _any_depth(base, rest)
    elif has_magic(first):
        for name, _ in _names(base):
            if fnmatchcase(name, first) and (first.startswith(".") or not name.startswith(".")):
                yield from _below(os.path.join(base, name), rest)
    elif os.path.lexists(path := os.path.join(base, first)):
        yield from _below(path, rest)


def _any_depth(base: str, rest: Sequence[str]) -> Iterator[str]:
    pending = [base]
    while pending:
        folder = pending.pop()
        inner = [(os.path.join(folder, name), is_folder) for name, is_folder in _visible(folder)]
        if rest:
            yield from _below(folder, rest)
        else:
            yield from (path for path, is_folder in inner if not is_folder)
        pending.extend(path for path, is_folder in reversed(inner) if is_folder)


def _visible(folder: str) -> list[tuple[str, bool]]:
    return [(name, is_folder) for name, is_folder in _names(folder) if not name.startswith(".")]


def _names(folder: str) -> list[tuple[str, bool]]:
    """Sorted names in `folder`, each with whether it is a folder and no link."""
    try:
        with os.scandir(folder or ".") as entries:
            return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    except OSError:  # as in a shell: what cannot be listed holds no match
        return []
