"""The one walker: what lies below a root. `ls`, `stats`, `verify` and `prune` all see through it.

Links are never followed. What cannot be listed is a problem in the result, never an exception.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vcache_cli.store.directory_state import UNSEEN, DirectoryState
from vcache_cli.store.owners import is_planted, owners_of
from vcache_cli.store.rows import VANISHED, FileFacts
from vcache_cli.store.scan_names import NoEntries, entry_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Final

    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.scan_names import Naming

__all__ = [
    "OWN_DIRECTORY",
    "OWN_FILES",
    "DirectoryScan",
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
    state: DirectoryState = UNSEEN
    """Before it was listed."""
    entries: tuple[FileFacts, ...] = ()
    """Regular files that lie where the layout puts an entry."""
    foreign: tuple[FileFacts, ...] = ()
    """Everything else but directories: strange files, links, sockets."""
    subdirectories: tuple[str, ...] = ()
    """Paths below the root; without ``.vcache``."""
    error: str | None = None
    """Why it could not be listed."""
    is_gone: bool = False
    """True where that is because it vanished meanwhile."""
    unseen: tuple[tuple[str, str], ...] = ()
    """(path below the root, why it could not be looked at): it may be an entry."""
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
        """(path below the root, why it could not be listed or looked at)."""
        found = [(each.path, each.error) for each in self.directories if each.error]
        unseen = [pair for each in self.directories for pair in each.unseen]
        return [*found, *unseen, *self.own.errors]


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
        gone = error.errno in VANISHED
        return DirectoryScan(path, error=_reason(error), is_gone=gone)
    if not path:
        names = [(name, found) for name, found in names if not _is_own(root, name)]
    here = DirectoryScan(path, DirectoryState.of(before))
    if naming.shards is None:
        return _among_strangers(here, FileFacts.of(path, before), sorted(names), naming, root)
    there = _There()
    for name, found in sorted(names):
        relative = f"{path}/{name}" if path else name
        with there.looking_at(relative):
            if found.is_dir(follow_symlinks=False):
                there.below.append(relative)
            elif facts := _facts(relative, found, naming):
                there.add(facts)
    return there.into(here)


@dataclass(slots=True)
class _There:
    """What is found in one directory, name by name."""

    entries: list[FileFacts] = field(default_factory=list)
    foreign: list[FileFacts] = field(default_factory=list)
    below: list[str] = field(default_factory=list)
    unseen: list[tuple[str, str]] = field(default_factory=list)

    @contextmanager
    def looking_at(self, path: str) -> Iterator[None]:
        """Keep what the system says instead of showing what lies at `path`."""
        try:
            yield
        except OSError as error:
            self.unseen.append((path, _reason(error)))

    def add(self, facts: FileFacts) -> None:
        """One file more."""
        (self.foreign if facts.key is None else self.entries).append(facts)

    def into(self, here: DirectoryScan) -> DirectoryScan:
        """The directory, with what it holds."""
        return replace(
            here,
            entries=tuple(self.entries),
            foreign=tuple(self.foreign),
            subdirectories=tuple(self.below),
            unseen=tuple(self.unseen),
        )


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


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
    there = _There()
    for name, found in names:
        facts = None
        with there.looking_at(prefix + name):
            facts = _facts(prefix + name, found, naming, owners)
        if facts is None:
            continue
        if not stat.S_ISDIR(facts.mode):
            there.add(facts)
        elif prefix or facts.owner not in owners or name == OWN_DIRECTORY:
            there.foreign.append(_bare(facts))
        else:
            there.below.append(facts.path)
    return there.into(here)


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

    Raises:
        OSError: it is there, and cannot be looked at.
    """
    try:
        status = found.stat(follow_symlinks=False)
    except OSError as error:
        if error.errno in VANISHED:
            return None
        raise
    may_be = stat.S_ISREG(status.st_mode) and (owners is None or status.st_uid in owners)
    key = entry_key(relative, naming) if may_be else None
    return FileFacts.of(relative, status, key)


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
        scanned = scan_directory(root, waiting.pop(), NoEntries())
        errors.extend(scanned.unseen)
        if scanned.error and not scanned.is_gone:
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
