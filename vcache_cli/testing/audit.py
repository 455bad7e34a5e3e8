"""Notice input and output of code that should do none."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

__all__ = ["watch_io"]

_FAMILIES: Final = ("open", "os.", "shutil.", "socket.", "sqlite3.", "subprocess.", "tempfile.")
_HARMLESS: Final = frozenset({"os.putenv", "os.unsetenv"})


class _Watch(threading.local):
    events: list[str] | None = None


_WATCH: Final = _Watch()


@contextmanager
def watch_io() -> Iterator[list[str]]:
    """What this thread opens, lists, makes, removes or connects to, by Python's audit events.

    Code that imports at first use is to be called once before: imports open files.
    """
    _listen()
    found: list[str] = []
    _WATCH.events = found
    try:
        yield found
    finally:
        _WATCH.events = None


@cache
def _listen() -> None:
    """Once in a process: an audit hook stays."""
    sys.addaudithook(_hear)


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    events = _WATCH.events
    if events is not None and event.startswith(_FAMILIES) and event not in _HARMLESS:
        events.append(f"{event}{arguments!r:.200}")
