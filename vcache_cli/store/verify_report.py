"""What a verify is asked, and what it found, as values."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from vcache_cli.store.rows import FileFacts
    from vcache_cli.store.verify_entry import Level, Problem

__all__ = ["VerifyOptions", "VerifyReport"]

MAX_LISTED: Final = 1_000
"""Elements of a list in a document."""


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """How deep, how much, and what then."""

    level: Level = "data"
    repair: bool = False
    """Move damaged entries to quarantine and correct the index."""
    subset: float = 1.0
    """Share of the entries, 0..1; `key` and `seed` alone decide which. At least one entry."""
    seed: int = 0
    max_duration_seconds: float | None = None
    """Stop after that; the next verify of that level that has such a limit goes on from there."""
    cursor: str | None = None
    """Begin after this path, instead of where an earlier verify stopped."""
    threads: int = min(4, os.cpu_count() or 1)
    """Readers of the levels ``data`` and ``recompute``."""
    recompute: Callable[[FileFacts], tuple[Problem, ...]] | None = None
    """What level ``recompute`` finds wrong with a sound entry; called in any thread."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            UsageError: a share beyond 0..1, or no thread.
        """
        if not 0 < self.subset <= 1:
            raise UsageError(f"a subset of {self.subset:g} is not between 0 % and 100 %")
        if self.threads < 1:
            raise UsageError(f"{self.threads} threads cannot verify anything")


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was found."""

    level: Level
    checked: int
    """Entries."""
    ok: int
    """Entries without damage."""
    bytes_read: int
    problems: tuple[Problem, ...]
    complete: bool
    """False where time ran out first."""
    cursor: str | None = None
    """Path of the last entry checked, where it is not complete."""
    without_checksum: int = 0
    """Sound entries that carry no checksum, so that only their structure was checked."""
    structure_only: bool = False
    """True where that is every one of them."""
    empty_directories: int | None = None
    """Directories for an entry that hold nothing; None where entries share theirs."""

    @property
    def damage(self) -> tuple[Problem, ...]:
        """Damage that was found, repaired or not."""
        return tuple(problem for problem in self.problems if problem.is_damage)

    @property
    def damage_left(self) -> tuple[Problem, ...]:
        """Damage that is still there: exit code 4."""
        return tuple(problem for problem in self.problems if problem.is_left)

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.verify/1``; damage is listed first, then the rarer kinds."""
        kinds = Counter(problem.kind for problem in self.problems)
        ranked = sorted(self.problems, key=lambda each: (not each.is_damage, kinds[each.kind]))
        value: dict[str, Any] = {
            "level": self.level,
            "checked": self.checked,
            "ok": self.ok,
            "bytes_read": self.bytes_read,
            "problems": [problem.as_json() for problem in ranked[:MAX_LISTED]],
            "kinds": dict(sorted(kinds.items())),
            "complete": self.complete,
            "structure_only": self.structure_only,
            "without_checksum": self.without_checksum,
        }
        if len(ranked) > MAX_LISTED:
            value["problems_omitted"] = len(ranked) - MAX_LISTED
        if self.empty_directories is not None:
            value["empty_directories"] = self.empty_directories
        if self.cursor is not None:
            value["cursor"] = os.fsencode(self.cursor).decode("utf-8", "backslashreplace")
        return value
