"""Sums over the index's rows: by model, by kind, by age."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.quantity import format_time
from vcache_cli.store.index_tables import PERIOD_BITS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

    from vcache_cli.store.index import Index

__all__ = [
    "AGES_SECONDS",
    "Group",
    "GroupStats",
    "sum_by_age",
    "sum_by_kind",
    "sum_by_model",
    "sum_groups",
]

_DAY: Final = 86_400
_LABEL: Final = (int, str | None, str | None, str | None)
_SUMS: Final = f"""
SELECT sum(number), sum(size), min(oldest), max(latest), sum(blocks) FROM (
    SELECT entries AS number, bytes AS size, allocated AS blocks,
        (SELECT min(created) FROM entries WHERE label = ?1 AND created >= ?4) AS oldest,
        ifnull(used, (SELECT max(used) FROM entries WHERE label = ?1
            AND created BETWEEN period << {PERIOD_BITS} AND ((period + 1) << {PERIOD_BITS}) - 1)
        ) AS latest
    FROM sums WHERE label = ?1 AND period >= ?2 AND period < ?3
    UNION ALL SELECT 1, bytes, allocated, created, used
    FROM entries WHERE label = ?1 AND created BETWEEN ?4 AND ?5
    UNION ALL SELECT 1, bytes, allocated, created, used
    FROM entries WHERE label = ?1 AND created BETWEEN ?6 AND ?7)
"""  # noqa: S608  our own number
_SUMS_TYPES: Final = (*(int | None,) * 5,)
_FAR: Final = 2**62
AGES_SECONDS: Final = (0, _DAY, 7 * _DAY, 30 * _DAY, 90 * _DAY, 365 * _DAY)
"""What `by_age` counts from; each line counts all that is older."""


@dataclass(frozen=True, slots=True)
class GroupStats:
    """Entries of one model and stage."""

    model: str | None
    """None where the files do not say, or cannot be read."""
    stage: str | None
    entries: int
    bytes: int
    oldest_seconds: int
    """Creation of the oldest, since 1970."""
    newest_use_seconds: float
    """Last use of the latest used, since 1970."""

    def as_json(self) -> dict[str, Any]:
        """An element of ``by_model``."""
        value = {
            "model": self.model,
            "stage": self.stage,
            "entries": self.entries,
            "bytes": self.bytes,
            "oldest": format_time(self.oldest_seconds),
            "newest_use": format_time(self.newest_use_seconds),
        }
        return {name: part for name, part in value.items() if part is not None}


@dataclass(frozen=True, slots=True)
class Group:
    """Entries of one label that fall between two ages."""

    stage: str | None
    kind: str | None
    model: str | None
    older_than_seconds: int
    entries: int
    bytes: int
    oldest: int
    newest_use_ns: int
    allocated: int


def sum_groups(index: Index, now: int) -> list[Group]:
    """Sums by label and age: those kept of whole periods, and the rows of the periods cut."""
    groups: list[Group] = []
    labels = index.query("SELECT id, stage, kind, model FROM labels", types=_LABEL)
    limits = [*AGES_SECONDS[1:], None]
    for label, stage, kind, model in labels:
        for age, older in zip(AGES_SECONDS, limits, strict=True):
            first = -_FAR if older is None else now - older + 1
            last = now - age if age else _FAR  # a time in the future is no age
            found = index.query(_SUMS, (label, *_parts_of(first, last)), types=_SUMS_TYPES)
            groups.extend(Group(stage, kind, model, age, *sums) for sums in found if sums[0])
    return groups


def _parts_of(first: int, last: int) -> tuple[int, ...]:
    """The seconds from `first` to `last`, as periods from one up to another, and two rests.

    >>> _parts_of(100, 3 * 4096)
    (1, 3, 100, 4095, 12288, 12288)
    """
    begin, end = -(-first >> PERIOD_BITS), (last + 1) >> PERIOD_BITS
    if begin >= end:
        return 0, 0, first, last, 0, -1
    return begin, end, first, (begin << PERIOD_BITS) - 1, end << PERIOD_BITS, last


def sum_by_model(groups: Iterable[Group]) -> tuple[GroupStats, ...]:
    """Entries by model and stage, in the order of their names."""
    by_name: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        by_name.setdefault((group.model or "", group.stage or ""), []).append(group)
    return tuple(
        GroupStats(
            model=same[0].model,
            stage=same[0].stage,
            entries=sum(group.entries for group in same),
            bytes=sum(group.bytes for group in same),
            oldest_seconds=min(group.oldest for group in same),
            newest_use_seconds=max(group.newest_use_ns for group in same) / 1e9,
        )
        for _, same in sorted(by_name.items())
    )


def sum_by_kind(groups: Iterable[Group]) -> dict[str, tuple[int, int]]:
    """Entries and bytes by kind; ``unknown`` where the files do not say."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for group in groups:
        counts[group.kind or "unknown"] += group.entries
        sizes[group.kind or "unknown"] += group.bytes
    return {kind: (counts[kind], sizes[kind]) for kind in counts}


def sum_by_age(groups: Iterable[Group]) -> tuple[tuple[int, int, int], ...]:
    """Seconds, entries and bytes: all that is at least so old, for each of `AGES_SECONDS`."""
    known = list(groups)
    lines = []
    for age in AGES_SECONDS:
        older = [group for group in known if group.older_than_seconds >= age]
        count, size = sum(each.entries for each in older), sum(each.bytes for each in older)
        lines.append((age, count, size))
    return tuple(lines)
