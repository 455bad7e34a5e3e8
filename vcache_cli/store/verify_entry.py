"""Checking one entry's file, as deep as asked. Reads only; never touches an mtime."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from vcache_cli.errors import InvalidEntryError
from vcache_cli.items import display_path
from vcache_cli.store.files import OsFiles
from vcache_cli.store.quarantine import is_still
from vcache_cli.store.reader import EntryReader, read_header
from vcache_cli.store.rows import VANISHED
from vcache_cli.store.second_opinion import SecondOpinion

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Final

    from vcache_cli.entry import Entry
    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.rows import FileFacts

__all__ = ["DAMAGE", "Checked", "EntryChecker", "Level", "Problem", "problem_of"]

Level = Literal["stat", "header", "data", "recompute"]

DAMAGE: Final = frozenset(
    {
        *("size", "header", "checksum", "key_mismatch", "dtype", "symlink", "io_error"),
        "recompute_mismatch",
    }
)
"""Kinds of problems that make an entry's get miss, or give what it should not; the others are
told for information."""

_FLOATS: Final = frozenset({"BF16", "F16", "F32"})
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM})


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that `verify` found."""

    path: str
    """Below the root (`surrogateescape`)."""
    kind: str
    """A kind of ``vcache.verify/1``."""
    key: str | None = None
    """The entry's key; None for a directory, or a file that is no entry's."""
    expected: str | None = None
    actual: str | None = None
    action: str = "none"
    """What was done about it: ``none``, ``quarantined``, ``reindexed``, ``gone`` where the file
    was replaced or removed meanwhile, or ``failed: ...``."""
    reason: str | None = None
    """Why an entry is not what is computed anew: ``weights``, ``processor``, ``revision``,
    ``versions`` or ``content``."""
    max_error: float | None = None
    """Largest difference from what is computed anew, relative to its largest value."""
    cosine: float | None = None
    """Of the angle between both, over all values."""

    @property
    def is_damage(self) -> bool:
        """True where entries are lost to readers, or may be."""
        return self.kind in DAMAGE

    @property
    def is_repairable(self) -> bool:
        """True for damage that putting the file aside ends.

        What other weights, settings or versions made is as it was made: it is for prune.
        """
        return self.is_damage and self.reason in {None, "content"}

    @property
    def is_left(self) -> bool:
        """True for damage that is still in a reader's way."""
        return self.is_damage and self.action not in {"quarantined", "gone"}

    def as_json(self) -> dict[str, Any]:
        """An element of ``problems``."""
        value = {
            "key": self.key,
            "path": display_path(self.path),
            "kind": self.kind,
            "expected": self.expected,
            "actual": self.actual,
            "action": self.action,
            "reason": self.reason,
            "max_error": self.max_error,
            "cosine": self.cosine,
        }
        return {name: part for name, part in value.items() if part is not None}


@dataclass(frozen=True, slots=True)
class Checked:
    """The check of one entry."""

    facts: FileFacts
    problems: tuple[Problem, ...] = ()
    bytes_read: int = 0
    has_checksum: bool = False
    """True where the file carries a checksum, or nothing looked for one."""
    vanished: bool = False
    """It was removed or replaced meanwhile: nothing is said of it."""

    @property
    def is_ok(self) -> bool:
        """True where no damage was found."""
        return not self.vanished and not any(problem.is_damage for problem in self.problems)


class EntryChecker:
    """Looks for what is wrong with the files of entries. Any thread.

    Args:
        root: the store.
        level: ``stat`` opens nothing; ``header`` checks the header; ``data`` reads everything,
            compares the checksum and asks the safetensors library for a second opinion.
    """

    def __init__(self, root: StoreRoot, level: Level) -> None:
        self._root, self._level = root, level
        self._reader = EntryReader(OsFiles(), root.layout, scratch=True)
        self._opinion = SecondOpinion()

    def check(self, facts: FileFacts, known_bytes: int | None) -> Checked:
        """What is wrong with one file.

        Args:
            facts: the file as the scan saw it.
            known_bytes: the size that the index knows of the very same file; published files
                never change in place.
        """
        noted = _stat_problems(self._root, facts)
        if self._level == "stat":
            if known_bytes not in {None, facts.size_bytes}:
                noted += (problem_of(facts, "size", str(known_bytes), str(facts.size_bytes)),)
            return Checked(facts, noted, has_checksum=True)
        look = self._look_at_header if self._level == "header" else self._look_at_data
        try:
            checked = _tried_twice(lambda: look(facts))
        except InvalidEntryError as error:
            checked = Checked(facts, (problem_of(facts, error.finding, None, error.message),))
        except OSError as error:
            if error.errno in VANISHED:
                return Checked(facts, vanished=True)
            checked = Checked(facts, (problem_of(facts, "io_error", None, error.strerror),))
        if checked.problems and not is_still(self._root, facts):
            return Checked(facts, vanished=True)
        return replace(checked, problems=(*noted, *checked.problems))

    def _look_at_header(self, facts: FileFacts) -> Checked:
        found = read_header(f"{self._root.path}/{facts.path}", facts.path, self._root.layout)
        dtypes = {spec.name: spec.dtype for spec in found.header.tensors}
        problems = _dtype_problems(facts, found.entry, dtypes)
        summed = _has_checksum(self._root, found.entry)
        return Checked(facts, problems, found.header.data_start, summed)

    def _look_at_data(self, facts: FileFacts) -> Checked:
        path = os.path.join(self._root.path, facts.path)
        entry = self._reader.read(path, facts.path)
        dtypes = {name: tensor.dtype for name, tensor in entry.tensors.items()}
        problems = _dtype_problems(facts, entry, dtypes)
        difference = self._opinion.difference(path, entry)
        if difference:
            problems += (problem_of(facts, "header", "as safetensors reads it", difference),)
        return Checked(facts, problems, facts.size_bytes, _has_checksum(self._root, entry))


def _tried_twice(check: Callable[[], Checked]) -> Checked:
    """What the second look says where the first was disturbed: a sound file is not put aside."""
    try:
        return check()
    except OSError as error:
        if error.errno in VANISHED | _DENIED:
            raise
    return check()


def problem_of(
    facts: FileFacts, kind: str, expected: str | None = None, actual: str | None = None
) -> Problem:
    """A problem of one file."""
    return Problem(facts.path, kind, facts.key, expected, actual)


def _stat_problems(root: StoreRoot, facts: FileFacts) -> tuple[Problem, ...]:
    if not facts.mode & 0o022:
        return ()
    expected = f"{root.meta.modes.entry:04o}"
    return (problem_of(facts, "mode", expected, f"{stat.S_IMODE(facts.mode):04o}"),)


def _has_checksum(root: StoreRoot, entry: Entry) -> bool:
    return root.layout.checksum_field in entry.metadata


def _dtype_problems(
    facts: FileFacts, entry: Entry, dtypes: Mapping[str, str]
) -> tuple[Problem, ...]:
    """Float tensors of a dtype other than the one that the recipe says is stored."""
    encoder = entry.recipe.get("encoder")
    stored = encoder.get("stored_dtype") if isinstance(encoder, dict) else None
    return tuple(
        problem_of(facts, "dtype", f"{name} {stored}", f"{name} {dtype}")
        for name, dtype in dtypes.items()
        if stored in _FLOATS and dtype in _FLOATS and dtype != stored
    )
