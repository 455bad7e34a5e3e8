"""Files of one folder as columns: a walk finds many, and with most of them nothing is done."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias, overload

from vcache_cli.items import FileStat, MediaItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Facts", "FolderFiles", "facts_of"]

Facts: TypeAlias = tuple[int, int, int, int, int]
"""The fields of a `FileStat`, in its order."""

facts_of: Final[Callable[[os.stat_result], Facts]] = attrgetter(
    "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino", "st_dev"
)
"""As `FileStat.of`, a value less to make for each file."""


@dataclass(frozen=True, slots=True, eq=False)
class FolderFiles(Sequence[MediaItem]):
    """Items of files of one folder; each is made when it is asked for."""

    prefix: str
    """The folder's path as the walk spells it, with the ``/`` that stands before each name."""
    names: Sequence[str]
    """Plain names, each once, in the order of the walk."""
    facts: Sequence[Facts]
    """Of each file, as it was found."""

    def __len__(self) -> int:
        """Number of files."""
        return len(self.names)

    @overload
    def __getitem__(self, place: int) -> MediaItem: ...

    @overload
    def __getitem__(self, place: slice) -> FolderFiles: ...

    def __getitem__(self, place: int | slice) -> MediaItem | FolderFiles:
        """The item of a file, or fewer files."""
        if isinstance(place, slice):
            return FolderFiles(self.prefix, self.names[place], self.facts[place])
        return MediaItem(self.prefix + self.names[place], FileStat._make(self.facts[place]))

    def chosen(self, wanted: Iterable[object]) -> FolderFiles:
        """Those whose turn in `wanted` is true."""
        marks = tuple(wanted)
        names, facts = compress(self.names, marks), compress(self.facts, marks)
        return FolderFiles(self.prefix, tuple(names), tuple(facts))

    @property
    def absolute_prefix(self) -> str:
        """What stands before each name in `MediaItem.absolute_path`."""
        return os.path.join(os.path.abspath(self.prefix), "")

    @property
    def paths(self) -> list[str]:
        """`MediaItem.path` of each."""
        return [self.prefix + name for name in self.names]
