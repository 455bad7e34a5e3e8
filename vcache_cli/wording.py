"""Numbers as people say them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Final

__all__ = ["age", "count", "duration", "percent"]

_AGES: Final = ((604_800, "w"), (86_400, "d"), (3600, "h"), (60, "m"))


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun.

    >>> count(1, "entry", "entries"), count(12_000, "entry", "entries"), count(2, "item")
    ('1 entry', '12,000 entries', '2 items')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def percent(share: float) -> str:
    """0..1 as a percentage, rounded down, so that only all of it reads as 100%.

    >>> percent(0.99996), percent(1.0), percent(0.5)
    ('99.99%', '100%', '50%')
    """
    hundredths = int(share * 10_000 + 1e-6)
    return f"{hundredths / 100:g}%"


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(0.25), duration(12.34), duration(200), duration(600), duration(7260)
    ('0.25 s', '12.3 s', '3 m 20 s', '10 m', '2 h 1 m')
    """
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest} s" if rest else f"{minutes} m"
    return f"{minutes // 60} h {minutes % 60} m" if minutes % 60 else f"{minutes // 60} h"


def age(moment: str, now: datetime | None = None) -> str:
    """How long ago an RFC 3339 moment was; the text itself where it is none.

    >>> age("2026-01-01T00:00:00Z", datetime(2026, 1, 3, tzinfo=UTC))
    '2d ago'
    """
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return moment
    if then.tzinfo is None:
        return moment
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    for unit_seconds, unit in _AGES:
        if seconds >= unit_seconds:
            return f"{int(seconds // unit_seconds)}{unit} ago"
    return "just now"
