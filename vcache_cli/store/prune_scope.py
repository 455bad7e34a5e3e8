"""What a prune is asked to remove, and what it then would: values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["Doomed", "PruneScope"]


@dataclass(frozen=True, slots=True)
class PruneScope:
    """What is to go.

    `model`, `stage`, `keys`, `sources_sha256` and `keep_sources_sha256` select entries; an entry
    has to fit all that are given. `older_than_seconds`, `unused_for_seconds`, `incompatible` and
    `max_size_bytes` say which of the selected go: those that any of them names. With none of
    these, all selected go.
    """

    max_size_bytes: int | None = None
    """Of all entries, selected or not, as sizes of files; least recently used go first."""
    older_than_seconds: float | None = None
    """Since creation, as the header says, else since it was written."""
    unused_for_seconds: float | None = None
    """Since the last use; since it was written where its server never touches."""
    model: str | None = None
    stage: str | None = None
    keys: frozenset[str] | None = None
    sources_sha256: frozenset[str] | None = None
    """Entries of these sources."""
    keep_sources_sha256: frozenset[str] | None = None
    """Entries of any other source; those that do not say their source stay."""
    incompatible: bool = False
    """Files of another format, or damaged ones, that lie where entries belong."""

    @property
    def is_empty(self) -> bool:
        """True where nothing says what to remove."""
        return self == PruneScope()

    @property
    def has_policy(self) -> bool:
        """True where not simply all selected go."""
        ages = (self.max_size_bytes, self.older_than_seconds, self.unused_for_seconds)
        return self.incompatible or any(part is not None for part in ages)

    def as_json(self) -> dict[str, Any]:
        """The field ``policy`` of ``vcache.prune/1``: what was given."""
        value: dict[str, Any] = {
            "max_size": self.max_size_bytes,
            "older_than_seconds": self.older_than_seconds,
            "unused_for_seconds": self.unused_for_seconds,
            "model": self.model,
            "stage": self.stage,
            "keys": None if self.keys is None else len(self.keys),
            "sources": None if self.sources_sha256 is None else len(self.sources_sha256),
            "not_in": None if self.keep_sources_sha256 is None else len(self.keep_sources_sha256),
            "incompatible": self.incompatible or None,
        }
        return {name: part for name, part in value.items() if part is not None}


class Doomed(NamedTuple):
    """A file that is to go."""

    key: str
    """Of an entry; the printable path of any other file."""
    place: str | None
    """Path below the root; None for an entry, whose layout says it."""
    bytes: int
    """Size of the file."""
    used_ns: int
    """mtime, as it was when the plan was made."""
    inode: int
    reason: str
    """``temp``, ``quarantine``, ``empty`` for a directory, ``incompatible``, ``aged``, ``unused``,
    ``selected``, ``size``."""

    @property
    def is_entry(self) -> bool:
        """False for temps, quarantined files and directories."""
        return self.place is None

    @property
    def is_directory(self) -> bool:
        """True for an empty directory."""
        return self.reason == "empty"
