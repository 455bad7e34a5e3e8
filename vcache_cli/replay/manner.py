"""How a corpus is sent, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["PROMPT", "Manner"]

PROMPT: Final = "What is this?"


@dataclass(frozen=True, slots=True)
class Manner:
    """Choices of a replay; the defaults are those of the command line."""

    model: str
    """As the server calls it."""
    prompt: str = PROMPT
    """What is asked about each item."""
    videos: bool = False
    """Send videos too, as `video_url`."""
    concurrency: int = 4
    """Requests at once."""
    rate: float | None = None
    """Most requests begun in a second; None is no limit."""
    retries: int = 5
    """How often a request is sent again that may succeed then."""
    timeout_seconds: float = 300.0
    """Longest that one request may take."""
    max_file_bytes: int = 256 * 1024**2
    measure: int = 0
    """How many items are sent a second time, to learn what the first time was good for."""
