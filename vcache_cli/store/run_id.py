"""What names a run of a store, and a push: when it began, in an order that names show. Pure."""

from __future__ import annotations

import math
import re
import secrets
from typing import Final

from vcache_cli.quantity import format_time, parse_time

__all__ = ["RUN_ID_PATTERN", "is_run_id", "new_run_id", "run_id_seconds"]

RUN_ID_PATTERN: Final = r"\d{8}T\d{6}Z-[0-9a-f]{8}"
_RUN_ID: Final = re.compile(RUN_ID_PATTERN, re.ASCII)
_PARTS_OF_A_SECOND: Final = 1 << 16


def new_run_id(seconds: float) -> str:
    """An id that sorts after those of earlier moments and that no other run has.

    Its digits are the second in UTC, the part of the second in 65,536ths, and four random ones.

    Args:
        seconds: since 1970.

    >>> new_run_id(60.5)[:21]
    '19700101T000100Z-8000'
    """
    stamp = format_time(seconds).replace("-", "").replace(":", "")
    part = math.floor(seconds * _PARTS_OF_A_SECOND) % _PARTS_OF_A_SECOND
    return f"{stamp}-{part:04x}{secrets.token_hex(2)}"


def is_run_id(text: str) -> bool:
    """True for what has the form of a run's id, its moment too."""
    try:
        run_id_seconds(text)
    except ValueError:
        return False
    return True


def run_id_seconds(text: str) -> float:
    """When that run began, since 1970, in whole seconds.

    Raises:
        ValueError: `text` is no run's id.

    >>> run_id_seconds("19700101T000100Z-80000a1b")
    60.0
    """
    try:
        if _RUN_ID.fullmatch(text):
            return parse_time(text.partition("-")[0])
    except ValueError:
        pass  # no day of a calendar
    raise ValueError(f"not the id of a run: {text[:40]!r}")
