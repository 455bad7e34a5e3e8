"""What has to be said of single entries, without end in number and yet bounded in memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from vcache_cli.items import display_path

__all__ = ["Remarks"]

_MOST: Final = 1000
"""Of each list; the others are counted."""


@dataclass(slots=True)
class Remarks:
    """Failures and warnings, by entry. One thread."""

    failures: list[dict[str, str]] = field(default_factory=list)
    warnings: list[dict[str, str]] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    """How many of each kind."""
    warned: Counter[str] = field(default_factory=Counter)

    def fail(self, key: str, kind: str, message: str) -> None:
        """Note that an entry was left out, and why."""
        _note(self.failures, self.failed, key, (kind, message))

    def warn(self, key: str, kind: str, message: str) -> None:
        """Note something that is no failure."""
        _note(self.warnings, self.warned, key, (kind, message))

    def as_json(self) -> dict[str, Any]:
        """The fields ``failures`` and ``warnings`` of a document."""
        return {
            "failures": self.failures,
            "failures_omitted": self.failed.total() - len(self.failures) or None,
            "warnings": self.warnings,
            "warnings_omitted": self.warned.total() - len(self.warnings) or None,
        }


def _note(told: list[dict[str, str]], counts: Counter[str], key: str, why: tuple[str, str]) -> None:
    kind, message = why
    counts[kind] += 1
    if len(told) < _MOST:
        told.append({"key": display_path(key), "kind": kind, "message": message})
