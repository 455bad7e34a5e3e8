"""Writes down what a run learns, for the shortcuts of the next one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from vcache_cli.items import FileStat, Group, Kind
from vcache_cli.outcome import Failure, Outcome, Status
from vcache_cli.pipeline.frames import frame_source
from vcache_cli.protocols import Memo, Seen

if TYPE_CHECKING:
    from collections.abc import Callable

    from vcache_cli.entry import Entry

__all__ = ["Ledger", "Notebook"]

_COMMIT_EVERY_SECONDS = 2.0


class Ledger(Memo, Protocol):
    """The index, as a run writes it. Losing it costs time, never data: nothing here raises."""

    def remember_unchanged(self, path: str, stat: FileStat, seen: Seen) -> None:
        """That the file at `path`, with this stat, has this content."""
        ...

    def remember_known(self, source_sha256: str, context: str, key: str) -> None:
        """That this content has this entry key."""
        ...

    def remember_failure(self, source_sha256: str, context: str, failure: Failure) -> None:
        """That this content fails for good."""
        ...

    def add_entry(self, entry: Entry, size_bytes: int) -> None:
        """That `entry` was published with a file of `size_bytes`."""
        ...

    def add_source(self, key: str, path: str) -> None:
        """That the file at `path` has this entry."""
        ...

    def commit(self) -> None:
        """Make what was remembered durable enough."""
        ...


@dataclass(slots=True)
class Notebook:
    """Decides what of an Outcome is worth remembering; one thread."""

    ledger: Ledger
    make_context: Callable[[], str]
    """See `Triage`."""
    keys_by_digest: bool
    """True where the target's key follows from the digest, so that `known` adds nothing."""
    clock: Callable[[], float] = time.monotonic
    _committed_at: float = 0.0

    def write(self, outcome: Outcome) -> None:
        """Remember `outcome`. Call it for items whose file was opened."""
        failure = outcome.failure
        if failure and (failure.transient or failure.stage == "write"):
            return
        self._write_unchanged(outcome)
        digest = outcome.source_sha256
        if digest and failure and outcome.status is not Status.SKIPPED:
            self.ledger.remember_failure(digest, self.make_context(), failure)
        if digest and not failure:
            self._write_keys(outcome, digest)
        self._commit_sometimes()

    def _write_keys(self, outcome: Outcome, digest: str) -> None:
        for key in outcome.entry_keys:
            for each in outcome.item.files:
                self.ledger.add_source(key, each.absolute_path)
        if outcome.key and not self.keys_by_digest:
            self.ledger.remember_known(digest, self.make_context(), outcome.key)
        # The first one last: where it is known, so are all others, whenever a run was cut off.
        for number, key in reversed(list(enumerate(outcome.keys))):
            self.ledger.remember_known(frame_source(digest, number), self.make_context(), key)

    def _write_unchanged(self, outcome: Outcome) -> None:
        if isinstance(outcome.item, Group):
            for each, digest in zip(outcome.item.items, outcome.members_sha256, strict=False):
                if each.stat is not None:
                    seen = Seen(digest, Kind.IMAGE)
                    self.ledger.remember_unchanged(each.absolute_path, each.stat, seen)
            return
        if outcome.item.stat is None or outcome.kind is None:
            return
        if outcome.kind is Kind.IMAGE and not outcome.source_sha256:
            return
        seen = Seen(outcome.source_sha256 or "", outcome.kind)
        self.ledger.remember_unchanged(outcome.item.absolute_path, outcome.item.stat, seen)

    def _commit_sometimes(self) -> None:
        now = self.clock()
        if now - self._committed_at >= _COMMIT_EVERY_SECONDS:
            self._committed_at = now
            self.ledger.commit()
