"""Items of one content in one run: the first is worked on, the others share its fate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vcache_cli.outcome import Outcome, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vcache_cli.outcome import PresentFiles

__all__ = ["Copies"]

_RECENT: Final = 262_144


class Copies:
    """Who is first of its key, and who waits for whom. Bounded; one thread.

    Args:
        recent: keys remembered after they were stored, so that later copies are told from what
            was in the store before the run. A copy of something older is then called present,
            which is true as well.
    """

    def __init__(self, *, recent: int = _RECENT) -> None:
        self._in_flight: dict[str, list[Outcome]] = {}
        self._stored: dict[str, None] = {}
        self._recent = recent
        self.waiting = 0
        """Copies whose first is still in flight."""

    def is_first(self, key: str) -> bool:
        """True where nobody of that key is in flight or was stored lately; then this one is."""
        if key in self._in_flight or key in self._stored:
            return False
        self._in_flight[key] = []
        return True

    def settle(self, outcome: Outcome) -> Outcome | None:
        """The Outcome of an item that is not the first of its key.

        None where it waits: `end` gives it back. An item that was there before the run is
        returned as it is.
        """
        if not self._in_flight and not self._stored:
            return outcome
        waiting = self._in_flight.get(outcome.key or "")
        if waiting is not None:
            waiting.append(outcome)
            self.waiting += 1
            return None
        # of a clip's frames: one that is still in flight is on disk too, or it were not present
        ours = any(key in self._stored or key in self._in_flight for key in outcome.entry_keys)
        return outcome._replace(status=Status.COPY) if ours else outcome

    def settle_all(self, files: PresentFiles) -> Sequence[Outcome]:
        """The Outcomes of those of `files` that do not wait."""
        for ours in (self._in_flight.keys(), self._stored.keys()):
            if ours and not ours.isdisjoint(files.keys):
                return [*filter(None, map(self.settle, files))]
        return files

    def end(self, first: Outcome) -> list[Outcome]:
        """The Outcomes of those that waited for `first`, which is stored or failed."""
        key = first.key or ""
        copies = self._in_flight.pop(key, [])
        self.waiting -= len(copies)
        if first.failure:
            return [c._replace(status=Status.FAILED, failure=first.failure) for c in copies]
        self._remember(key)
        return [copy._replace(status=Status.COPY) for copy in copies]

    def _remember(self, key: str) -> None:
        self._stored[key] = None
        if len(self._stored) > self._recent:
            del self._stored[next(iter(self._stored))]
