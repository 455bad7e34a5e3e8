"""One tier before another: what the near one forgot, the far one still has."""

from __future__ import annotations

from vcache_cli.entry import Entry
from vcache_cli.protocols import Tier
from vcache_cli.store.flight import SingleFlight

__all__ = ["TieredCache"]


class TieredCache:
    """A `Tier` over two. As safe for threads as they are; holds no lock while they work.

    Args:
        front: asked first, and given what the back had; such as a `MemoryTier`.
        back: holds everything; such as a `DiskStore`.
        single_flight: callers that miss the same key in front at the same time read it from the
            back once.
    """

    def __init__(self, front: Tier, back: Tier, *, single_flight: bool = False) -> None:
        self.front = front
        self.back = back
        self._flights: SingleFlight[str, Entry | None] | None = (
            SingleFlight() if single_flight else None
        )

    def get(self, key: str) -> Entry | None:
        """The entry, from the front or promoted to it; None where neither has it."""
        entry = self.front.get(key)
        if entry is not None:
            return entry
        if self._flights is None:
            return self._promote(key)
        return self._flights.run(key, lambda: self._promote(key))

    def put(self, entry: Entry) -> int:
        """Write the entry to the back, then keep it in front; bytes that the back wrote.

        What the back refuses with an error does not come to the front.
        """
        written = self.back.put(entry)
        self.front.put(entry)
        return written

    def contains(self, key: str) -> bool:
        """True where either has it."""
        return self.front.contains(key) or self.back.contains(key)

    def _promote(self, key: str) -> Entry | None:
        entry = self.back.get(key)
        if entry is not None:
            self.front.put(entry)
        return entry
