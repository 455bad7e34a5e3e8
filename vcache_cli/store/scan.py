"""The one walker: what lies below a root. `ls`, `stats`, `verify` and `prune` all see through it.

Links are never followed. What cannot be listed is a problem in the result, never an exception.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from vcache_cli.store.owners import is_planted, owners_of
from vcache_cli.store.rows import FileFacts, mtime_ns_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Final

    from vcache_cli.store.meta import StoreRoot

__all__ = [
    "OWN_DIRECTORY",
    "OWN_FILES",
    "DirectoryScan",
    "Naming",
    "OwnArea",
    "Scan",
    "allocated_once",
    "scan_directory",
    "scan_own",
    "scan_store",
    "walk",
]

OWN_DIRECTORY: Final = ".vcache"
OWN_FILES: Final = frozenset({"CACHEDIR.TAG"})
"""Names directly below the root that are vcache's own, beside ``.vcache``."""


@dataclass(frozen=True, slots=True)
class DirectoryScan:
    """What one directory holds."""

    path: str
    """Below the root; ``""`` is the root itself."""
    mtime_ns: int = 0
    """Before it was listed; 0 where it could not be examined."""
    inode: int = 0
    entries: tuple[FileFacts, ...] = ()
    """Regular files that lie where the layout puts an entry."""
    foreign: tuple[FileFacts, ...] = ()
    """Everything else but directories: strange files, links, sockets."""
    subdirectories: tuple[str, ...] = ()
    """Paths below the root; without ``.vcache``."""
    error: str | None = None
    """Why it could not be listed."""
    is_empty: bool = False
    """True where it holds nothing, though it might hold an entry."""


@dataclass(frozen=True, slots=True)
class OwnArea:
    """What lies in ``.vcache`` (and the tag beside it), by use."""

    tmp: tuple[FileFacts, ...] = ()
    quarantine: tuple[FileFacts, ...] = ()
    other: tuple[FileFacts, ...] = ()
    """Index, run files, locks, the store's own description."""
    errors: tuple[tuple[str, str], ...] = ()
    """(path below the root, why it could not be listed)."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Everything below a root, each name in exactly one place."""

    directories: tuple[DirectoryScan, ...]
    own: OwnArea = field(default_factory=OwnArea)

    @property
    def entries(self) -> list[FileFacts]:
        """Entry files, in the order of their paths."""
        return sorted(file for each in self.directories for file in each.entries)

    @property
    def foreign(self) -> list[FileFacts]:
        """What is neither an entry nor vcache's own, in the order of paths."""
        return sorted(file for each in self.directories for file in each.foreign)

    @property
    def errors(self) -> list[tuple[str, str]]:
        """(path below the root, why it could not be listed)."""
        found = [(each.path, each.error) for each in self.directories if each.error]
        return [*found, *self.own.errors]


class Naming(Protocol):
    """The part of a layout that says which names are entries."""

    @property
    def shards(self) -> tuple[str, ...] | None:
        """Names of the directories that hold entries; None where any may."""
        ...

    def path_of(self, key: str) -> str:
        """Path of the entry below the root."""
        ...

    def key_of(self, path: str) -> str | None:
        """The key whose entry lies at `path`; None for a foreign file."""
        ...


class _NoEntries:
    """Naming of places where no entry can be."""

    shards = ()

    def path_of(self, key: str) -> str:
        return key

    def key_of(self, path: str) -> str | None:
        return None


def scan_directory(root: Path, path: str, naming: Naming) -> DirectoryScan:
    """One directory below `root`; names only and one lstat each, nothing is opened.

    Where any directory may hold entries, what belongs to another user is foreign, a directory
    that holds no entry is one foreign thing, and nothing is looked at below it.
    """
    absolute = os.path.join(root, path) if path else os.fspath(root)
    try:
        before = os.lstat(absolute)
        if not stat.S_ISDIR(before.st_mode):
            return DirectoryScan(path, error="not a directory any more")
        with os.scandir(absolute) as listing:
            names = [(name.name, name) for name in listing]
    except OSError as error:
        return DirectoryScan(path, error=error.strerror or type(error).__name__)
    if not path:
        names = [(name, found) for name, found in names if not _is_own(root, name)]
    here = DirectoryScan(path, mtime_ns_of(before), before.st_ino)
    if naming.shards is None:
        return _among_strangers(here, FileFacts.of(path, before), sorted(names), naming, root)
    entries: list[FileFacts] = []
    foreign: list[FileFacts] = []
    below: list[str] = []
    for name, found in sorted(names):
        relative = f"{path}/{name}" if path else name
        if found.is_dir(follow_symlinks=False):
            below.append(relative)
        elif facts := _facts(relative, found, naming):
            (foreign if facts.key is None else entries).append(facts)
    return replace(
        here, entries=tuple(entries), foreign=tuple(foreign), subdirectories=tuple(below)
    )


def _is_own(root: Path, name: str) -> bool:
    if name == OWN_DIRECTORY:
        return not is_planted(root)
    return name in OWN_FILES


def _among_strangers(
    here: DirectoryScan,
    itself: FileFacts,
    names: list[tuple[str, os.DirEntry[str]]],
    naming: Naming,
    root: Path,
) -> DirectoryScan:
    prefix = f"{here.path}/" if here.path else ""
    if prefix and not any(naming.key_of(prefix + name) is not None for name, _ in names):
        strange = (_bare(itself),) if names else ()
        return replace(here, foreign=strange, is_empty=not names)
    owners = owners_of(root)
    entries: list[FileFacts] = []
    foreign: list[FileFacts] = []
    below: list[str] = []
    for name, found in names:
        facts = _facts(prefix + name, found, naming, owners)
        if facts is None:
            continue
        if not stat.S_ISDIR(facts.mode):
            (foreign if facts.key is None else entries).append(facts)
        elif prefix or facts.owner not in owners or name == OWN_DIRECTORY:
            foreign.append(_bare(facts))
        else:
            below.append(facts.path)
    return replace(
        here, entries=tuple(entries), foreign=tuple(foreign), subdirectories=tuple(below)
    )


def _bare(facts: FileFacts) -> FileFacts:
    """A directory that is not looked into: what it takes is unknown, its name takes nothing."""
    return facts._replace(size_bytes=0, allocated_bytes=0, links=1)


def _facts(
    relative: str,
    found: os.DirEntry[str],
    naming: Naming,
    owners: frozenset[int] | None = None,
) -> FileFacts | None:
    """None where the file vanished between listing and lstat: it is simply not there.

    With `owners`, only theirs can be entries.
    """
    try:
        status = found.stat(follow_symlinks=False)
    except OSError:
        return None
    may_be = stat.S_ISREG(status.st_mode) and (owners is None or status.st_uid in owners)
    key = _entry_key(relative, naming) if may_be else None
    return FileFacts.of(relative, status, key)


def _entry_key(relative: str, naming: Naming) -> str | None:
    """The key of the entry that belongs at `relative`; only its one canonical place counts."""
    key = naming.key_of(relative)
    if key is None or naming.path_of(key) != relative:
        return None
    return key if key.isascii() or _is_unicode(key) else None


def _is_unicode(text: str) -> bool:
    """False for names with undecodable bytes, which no index and no JSON can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def walk(root: Path, naming: Naming) -> Iterator[DirectoryScan]:
    """Every directory below `root` but ``.vcache``, the root first, in the order of names."""
    waiting = [""]
    while waiting:
        scanned = scan_directory(root, waiting.pop(), naming)
        yield scanned
        waiting.extend(reversed(scanned.subdirectories))


def scan_own(root: Path) -> OwnArea:
    """What vcache keeps for itself below `root`."""
    tmp: list[FileFacts] = []
    quarantine: list[FileFacts] = []
    other: list[FileFacts] = []
    errors: list[tuple[str, str]] = []
    for name in sorted(OWN_FILES):
        other.extend(_lstat(root, name))
    waiting = [] if is_planted(root) else [OWN_DIRECTORY]
    while waiting:
        scanned = scan_directory(root, waiting.pop(), _NoEntries())
        if scanned.error and os.path.lexists(os.path.join(root, scanned.path)):
            errors.append((scanned.path, scanned.error))
        part = scanned.path.split("/")[1:2]
        {"tmp": tmp, "quarantine": quarantine}.get("".join(part), other).extend(scanned.foreign)
        waiting.extend(reversed(scanned.subdirectories))
    return OwnArea(tuple(tmp), tuple(quarantine), tuple(other), tuple(errors))


def _lstat(root: Path, name: str) -> Iterable[FileFacts]:
    try:
        yield FileFacts.of(name, os.lstat(os.path.join(root, name)))
    except OSError:
        return


def scan_store(root: StoreRoot) -> Scan:
    """Everything below the root, read from the directories themselves, without the index."""
    return Scan(tuple(walk(root.path, root.layout)), scan_own(root.path))


def allocated_once(files: Iterable[FileFacts], seen: set[tuple[int, int]] | None = None) -> int:
    """Bytes that the files take on disk; a file with several names counts once.

    Args:
        files: in the order in which names of one file are considered.
        seen: (device, inode) of linked files counted before; extended.
    """
    known = set() if seen is None else seen
    total = 0
    for file in files:
        identity = (file.device, file.inode)
        if file.links > 1 and identity in known:
            continue
        if file.links > 1:
            known.add(identity)
        total += file.allocated_bytes
    return total
