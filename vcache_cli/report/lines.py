"""One line of a run file, with the types that it should have: anyone may have written it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vcache_cli.outcome import Status

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final, Self

__all__ = ["MAX_TEXT", "Line", "number", "texts", "whole"]

MAX_TEXT: Final = 2_000
"""Longest text that is taken from a file, in characters."""
_STATUSES: Final = frozenset(status.value for status in Status)


@dataclass(frozen=True, slots=True)
class Line:
    """What became of one item."""

    source: str
    status: str
    key: str = ""
    kind: str = ""
    digest: str = ""
    """SHA-256 of the source; empty where it was not read."""
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Per stage."""
    failure: Mapping[str, str] = field(default_factory=dict)
    """Of what failed or was skipped: ``stage``, ``kind``, ``message``, ``hint``."""
    warnings: tuple[tuple[str, str], ...] = ()
    """Kind and message."""

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self | None:
        """The line as a value; None where it is not one of an item."""
        source, status = value.get("source"), value.get("status")
        if not isinstance(source, str) or not isinstance(status, str) or status not in _STATUSES:
            return None
        return cls(
            source=_short(source),
            status=status,
            key=_text(value.get("key")),
            kind=_text(value.get("kind")),
            digest=_text(value.get("source_sha256")),
            bytes_read=whole(_part(value, "bytes").get("read")),
            bytes_written=whole(_part(value, "bytes").get("written")),
            seconds=_seconds(_part(value, "seconds")),
            failure=texts(_part(value, "error")),
            warnings=_warnings(value.get("warnings")),
        )


def texts(value: Mapping[str, Any]) -> dict[str, str]:
    """The fields that are text, none of them long."""
    return {name: _short(each) for name, each in value.items() if isinstance(each, str)}


def whole(value: object) -> int:
    """A count; 0 for what is none."""
    return value if type(value) is int and 0 <= value < 2**63 else 0


def number(value: object) -> float | None:
    """A number that is not negative; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 2**63 else None  # NaN is neither


def _part(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _seconds(value: Mapping[str, Any]) -> dict[str, float]:
    known = {str(stage): number(spent) for stage, spent in value.items()}
    return {stage: spent for stage, spent in known.items() if spent is not None}


def _warnings(value: object) -> tuple[tuple[str, str], ...]:
    found = [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
    return tuple((_text(each.get("kind")), _text(each.get("message"))) for each in found)


def _text(value: object) -> str:
    return _short(value) if isinstance(value, str) else ""


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "\N{HORIZONTAL ELLIPSIS}"
