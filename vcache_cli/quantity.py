"""Sizes, ages and moments between text and numbers; the messages are for people."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vcache_cli.errors import UsageError

if TYPE_CHECKING:
    from typing import Final

__all__ = ["format_size", "format_time", "parse_age", "parse_size", "parse_time"]

_SIZE_UNITS: Final[dict[str, int]] = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgtp", start=1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgtp", start=1)},
}

_AGE_UNITS: Final[dict[str, int]] = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

_QUANTITY: Final = re.compile(r"(\d{1,19})(\.\d{1,18})? ?([a-z]{0,3})", re.ASCII)
"""Of so many digits that a number made of it is neither infinite nor refused."""

_MOST_SECONDS: Final = 200 * 365 * 86_400.0
"""Of an age: 64 bits of nanoseconds hold little more, and nothing is older."""


def parse_size(text: str) -> int:
    """Bytes of a size; a bare number is bytes, and a fraction of a byte is dropped.

    Raises:
        UsageError: not a size.

    >>> parse_size("10GiB"), parse_size("500 MB"), parse_size("1.5KiB"), parse_size("12")
    (10737418240, 500000000, 1536, 12)
    """
    found = _QUANTITY.fullmatch(text.strip().lower())
    if found is None or found[3] not in _SIZE_UNITS:
        raise UsageError(
            f"`{text}` is not a size",
            hint="write a number with B, kB, MB, GB, KiB, MiB, GiB ...; a bare number is bytes",
        )
    unit = _SIZE_UNITS[found[3]]
    return int(found[1]) * unit + math.floor(float(found[2] or 0) * unit)


def format_size(size_bytes: float) -> str:
    """Bytes with a binary unit, for people.

    >>> format_size(0), format_size(1023), format_size(1536), format_size(10 * 1024**3)
    ('0 B', '1023 B', '1.5 KiB', '10.0 GiB')
    """
    if size_bytes < 1024:
        return f"{size_bytes:.0f} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        size_bytes /= 1024
        if size_bytes < 1023.95 or unit == "TiB":
            break
    return f"{size_bytes:.1f} {unit}"


def parse_age(text: str) -> float:
    """Seconds of an age such as ``90s``, ``30m``, ``12h``, ``7d``, ``2w``; at most 200 years.

    Raises:
        UsageError: not an age; a bare number has no unit, so it is none.

    >>> parse_age("12h"), parse_age("0s"), parse_age("1.5d")
    (43200.0, 0.0, 129600.0)
    """
    found = _QUANTITY.fullmatch(text.strip().lower())
    if found is None or found[3] not in _AGE_UNITS:
        raise UsageError(
            f"`{text}` is not an age", hint="write a number with s, m, h, d or w, such as `12h`"
        )
    return min(float(found[1] + (found[2] or "")) * _AGE_UNITS[found[3]], _MOST_SECONDS)


def parse_time(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 moment; without an offset it is UTC.

    Raises:
        ValueError: not a moment.

    >>> parse_time("1970-01-01T00:01:00Z")
    60.0
    """
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def format_time(seconds: float) -> str:
    """RFC 3339 in UTC, whole seconds (rounded down); what a calendar cannot hold is clamped.

    >>> format_time(60.9), format_time(1e18)
    ('1970-01-01T00:01:00Z', '9999-12-31T23:59:59Z')
    """
    clamped = min(max(math.floor(seconds), -62_135_596_800), 253_402_300_799)
    moment = datetime.fromtimestamp(clamped, UTC).replace(tzinfo=None)
    return f"{moment.isoformat()}Z"
