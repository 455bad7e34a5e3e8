"""A line now and then of how far work has come that has no progress bar."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from vcache_cli.cli.text import count
from vcache_cli.quantity import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vcache_cli.buckets import Moved
    from vcache_cli.cli.output import Output

__all__ = ["ticking"]

_SECONDS: Final = 5.0


@contextmanager
def ticking(output: Output, moved: Moved, *, seconds: float = _SECONDS) -> Iterator[None]:
    """Say every few seconds what has moved; where nothing has, nothing."""
    ended = threading.Event()

    def tick() -> None:
        last = 0
        while not ended.wait(seconds):
            if moved.objects != last:
                last = moved.objects
                output.say(f"{count(last, 'object')}, {format_size(moved.size_bytes)}")

    thread = threading.Thread(target=tick, name="ticker", daemon=True)
    if not output.quiet:
        thread.start()
    try:
        yield
    finally:
        ended.set()
