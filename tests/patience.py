"""Waiting for what has to come, however slow the machine is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from vcache_cli.store.flight import SingleFlight

__all__ = ["PATIENCE_SECONDS", "until", "waiting"]

PATIENCE_SECONDS: Final = 300.0
"""After which it will not come: far more than the slowest machine needs."""


def until(came: Callable[[], object]) -> None:
    """Return once it is true."""
    gives_up_at = time.monotonic() + PATIENCE_SECONDS
    while not came():
        assert time.monotonic() < gives_up_at, "it never came"
        time.sleep(0.002)


def waiting(flights: SingleFlight[str, Any]) -> int:
    """How many wait for the only computation that is in the air."""
    (flight,) = flights._flights.values()
    done: threading.Event = flight.done
    return len(done._cond._waiters)  # type: ignore[attr-defined]
