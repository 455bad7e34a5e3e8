"""Would each item hit? Keys are computed as `warm` computes them, and looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vcache_cli.outcome import Outcome, PresentFiles, Status
from vcache_cli.pipeline.lookahead import Lookahead
from vcache_cli.pipeline.prepared import NOT_STORED
from vcache_cli.pipeline.summary import MAX_LISTED

if TYPE_CHECKING:
    from vcache_cli.items import WarmItem
    from vcache_cli.pipeline.frames import Bundle, Still
    from vcache_cli.pipeline.prepare import PrepareItem
    from vcache_cli.pipeline.prepared import Prepared
    from vcache_cli.pipeline.triage import Triage
    from vcache_cli.protocols import Engine, Session

__all__ = ["CheckReport", "check_items"]


@dataclass(slots=True)
class CheckReport:
    """Coverage of a corpus by a store."""

    warm: int = 0
    cold: int = 0
    unreadable: int = 0
    skipped: int = 0
    """Files that `warm` would skip: videos, and files that are no media."""
    cold_tokens: int = 0
    """Tokens of what is cold, as the language model would see it."""
    cold_items: list[dict[str, Any]] = field(default_factory=list)
    """`source` and `reason` of items that would miss, unreadable ones included; `tokens` of those
    that can be made."""
    cold_items_omitted: int = 0

    @property
    def items(self) -> int:
        """Items that a server could be asked about."""
        return self.warm + self.cold + self.unreadable

    @property
    def coverage(self) -> float:
        """Share of the items that would hit, 0..1; 1 of none."""
        return self.warm / self.items if self.items else 1.0

    def add(self, outcome: Outcome, why: Callable[[Outcome], str] | None = None) -> None:
        """Count one looked-up item; `why` tells more of one that would miss."""
        failure = outcome.failure
        if failure is None:
            self.warm += 1
        elif failure.kind == NOT_STORED.kind:
            self.cold += 1
            self.cold_tokens += outcome.foreseen.num_tokens if outcome.foreseen else 0
            self._list(outcome, why(outcome) if why else failure.message)
        elif outcome.status is Status.FAILED:
            self.unreadable += 1
            self._list(outcome, f"{failure.kind}: {failure.message}")
        else:
            self.skipped += 1

    def _list(self, outcome: Outcome, reason: str) -> None:
        if len(self.cold_items) < MAX_LISTED:
            tokens = {"tokens": outcome.foreseen.num_tokens} if outcome.foreseen else {}
            self.cold_items.append({"source": outcome.item.source, "reason": reason, **tokens})
        else:
            self.cold_items_omitted += 1

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.check/1``."""
        document: dict[str, Any] = {
            "items": self.items,
            "warm": self.warm,
            "cold": self.cold,
            "unreadable": self.unreadable,
            "skipped": self.skipped,
            "coverage": round(self.coverage, 6),
            "cold_tokens": self.cold_tokens,
            "cold_items": self.cold_items,
        }
        if self.cold_items_omitted:
            document["cold_items_omitted"] = self.cold_items_omitted
        return document


def check_items(
    found: Iterable[Sequence[WarmItem]], *, triage: Triage, prepare: PrepareItem, workers: Engine
) -> Iterator[Outcome]:
    """The Outcome of each item: ``present``, ``failed``, or ``skipped`` with the reason.

    `found` are the items as they were found; see `protocols.Batched`.
    `prepare` has `only_key` set, so that nothing is decoded which the key does not need.
    """
    with workers.session(prepare) as session:
        for looked_up in Lookahead(triage).over(found):
            if isinstance(looked_up, PresentFiles):
                yield from looked_up
                continue
            for item, early in looked_up:
                if early:
                    yield early
                    continue
                session.submit(item)
                yield from _taken(session, wait=session.full)
        while session.pending:
            yield from _taken(session, wait=True)


def _taken(
    session: Session[WarmItem | Still, Prepared | Bundle | Outcome], *, wait: bool
) -> Iterator[Outcome]:
    for result in session.take(wait=wait):
        if not isinstance(result, Outcome):
            raise TypeError("an item went beyond its key")
        yield result
