"""What a store holds, in numbers: quickly from the index, or by walking the truth."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vcache_cli.items import display_path
from vcache_cli.quantity import format_time
from vcache_cli.store.filesystem import Filesystem, filesystem_of
from vcache_cli.store.index import open_index
from vcache_cli.store.runs import Run, last_run
from vcache_cli.store.scan import allocated_once, scan_own, scan_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

    from vcache_cli.store.index import Index
    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.rows import FileFacts
    from vcache_cli.store.scan import OwnArea, Scan

__all__ = ["AGES_SECONDS", "GroupStats", "Limit", "StoreBytes", "StoreStats", "store_stats"]

_DAY: Final = 86_400
AGES_SECONDS: Final = (0, _DAY, 7 * _DAY, 30 * _DAY, 90 * _DAY, 365 * _DAY)
"""What `by_age` counts from; each line counts all that is older."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A setting that bounds a store."""

    value: int | None
    """Bytes; None where there is no limit."""
    origin: str
    """Where the value comes from, such as ``default`` or ``--max-size``."""

    def as_json(self) -> dict[str, Any]:
        """As in ``vcache.stats/1``."""
        known = {} if self.value is None else {"value": self.value}
        return {**known, "origin": self.origin}


@dataclass(frozen=True, slots=True)
class StoreBytes:
    """Every byte below the root, each in one place. All but `allocated` are sizes of files."""

    logical: int = 0
    """Entries."""
    allocated: int = 0
    """Entries, as blocks on disk; a file with several names counts once."""
    quarantine: int = 0
    tmp: int = 0
    index: int = 0
    """vcache's own: index, run files, locks, description."""
    foreign: int = 0

    def as_json(self) -> dict[str, int]:
        """As in ``vcache.stats/1``."""
        return {name: getattr(self, name) for name in self.__slots__}


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
class StoreStats:
    """What a store holds."""

    target: str
    entries: int
    bytes: StoreBytes
    by_model: tuple[GroupStats, ...]
    by_kind: Mapping[str, tuple[int, int]]
    """(entries, bytes) by kind; ``unknown`` where the files do not say."""
    by_age: tuple[tuple[int, int, int], ...]
    """(seconds, entries, bytes) of all that is at least so old."""
    fs: Filesystem
    index_state: str
    drift_entries: int | None = None
    """Entries in which index and truth differed; None where the truth was not walked."""
    foreign_files: tuple[str, ...] = ()
    """Printable paths below the root, where the truth was walked."""
    unreadable: tuple[tuple[str, str], ...] = ()
    """(directory, reason) of what could not be listed, where the truth was walked."""
    last_run: Run | None = None
    limits: Mapping[str, Limit] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.stats/1``."""
        index: dict[str, Any] = {"state": self.index_state}
        value: dict[str, Any] = {
            "target": self.target,
            "entries": self.entries,
            "bytes": self.bytes.as_json(),
            "by_model": [group.as_json() for group in self.by_model],
            "by_kind": [
                {"kind": kind, "entries": count, "bytes": size}
                for kind, (count, size) in sorted(self.by_kind.items())
            ],
            "by_age": [
                {"older_than_seconds": seconds, "entries": count, "bytes": size}
                for seconds, count, size in self.by_age
            ],
            "limits": {name: limit.as_json() for name, limit in self.limits.items()},
            "fs": self.fs.as_json(),
            "index": index,
        }
        if self.last_run is not None:
            value["last_run"] = self.last_run.as_json()
        if self.drift_entries is not None:
            index["drift_entries"] = self.drift_entries
            value["foreign_files"] = list(self.foreign_files)
            value["unreadable"] = [
                {"path": path, "message": reason} for path, reason in self.unreadable
            ]
        return value


def store_stats(
    root: StoreRoot,
    *,
    scan: bool = False,
    limits: Mapping[str, Limit] | None = None,
    now: float | None = None,
) -> StoreStats:
    """What the store holds; one that is read-only, or that vcache never wrote, as well.

    Args:
        root: the store.
        scan: walk the directories instead of trusting the index, and compare both.
        limits: ``max_size`` and ``min_free``, as the caller's settings have them.
        now: seconds since 1970, from which ages count.
    """
    with open_index(root) as index:
        index.refresh()
        walked = scan_store(root) if scan else None
        drift = None if walked is None else _settle_drift(root, index, walked)
        groups = _groups(index, int(time.time() if now is None else now))
        shared, foreign, state = index.shared_bytes(), index.foreign_bytes(), index.state
    own = scan_own(root.path)  # after the index is closed and its log is gone
    stats = StoreStats(
        target=root.meta.target,
        entries=sum(group.entries for group in groups),
        bytes=_bytes(groups, own, shared_bytes=shared, foreign_bytes=foreign),
        by_model=_by_model(groups),
        by_kind=_by_kind(groups),
        by_age=_by_age(groups),
        fs=filesystem_of(root.path),
        index_state=state,
        drift_entries=drift,
        last_run=last_run(root),
        limits=dict(limits or {}),
    )
    return stats if walked is None else _with_truth(stats, walked)


def _with_truth(stats: StoreStats, walked: Scan) -> StoreStats:
    entries = walked.entries
    counted = replace(
        stats.bytes,
        logical=_size(entries),
        allocated=allocated_once(entries),
        foreign=_size(walked.foreign),
    )
    return replace(
        stats,
        entries=len(entries),
        bytes=counted,
        foreign_files=tuple(display_path(file.path) for file in walked.foreign),
        unreadable=tuple((display_path(path), reason) for path, reason in walked.errors),
    )


def _settle_drift(root: StoreRoot, index: Index, walked: Scan) -> int:
    """Entries in which the index was wrong; afterwards it is not.

    A use that it had not seen is no drift: recency changes without a trace in the directory.
    """
    truth = {file.key or "": (file.size_bytes, file.mtime_ns) for file in walked.entries}
    known = {row.key: (row.size_bytes, row.used_ns) for row in index.rows()}
    wrong = {key for key in truth.keys() | known.keys() if truth.get(key) != known.get(key)}
    if wrong:
        index.forget_directories({root.layout.path_of(key).rpartition("/")[0] for key in wrong})
        index.refresh()
    return sum(truth.get(key, (-1,))[0] != known.get(key, (-1,))[0] for key in wrong)


@dataclass(frozen=True, slots=True)
class _Group:
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


def _groups(index: Index, now: int) -> list[_Group]:
    """Sums by label and age; each row is visited once, in an index that covers the question."""
    groups: list[_Group] = []
    labels = index.query("SELECT id, stage, kind, model FROM labels")
    limits = [*AGES_SECONDS[1:], None]
    for label, stage, kind, model in labels:
        for age, older in zip(AGES_SECONDS, limits, strict=True):
            after = -(2**62) if older is None else now - older
            before = now - age if age else 2**62  # a time in the future is no age
            found = index.query(
                "SELECT count(*), sum(bytes), min(created), max(used), sum(allocated) FROM entries"
                " WHERE label = ? AND created > ? AND created <= ?",
                (label, after, before),
            )
            groups.extend(_Group(stage, kind, model, age, *sums) for sums in found if sums[0])
    return groups


def _by_model(groups: Iterable[_Group]) -> tuple[GroupStats, ...]:
    by_name: dict[tuple[str, str], list[_Group]] = {}
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


def _by_kind(groups: Iterable[_Group]) -> dict[str, tuple[int, int]]:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for group in groups:
        counts[group.kind or "unknown"] += group.entries
        sizes[group.kind or "unknown"] += group.bytes
    return {kind: (counts[kind], sizes[kind]) for kind in counts}


def _by_age(groups: Iterable[_Group]) -> tuple[tuple[int, int, int], ...]:
    known = list(groups)
    lines = []
    for age in AGES_SECONDS:
        older = [group for group in known if group.older_than_seconds >= age]
        count, size = sum(each.entries for each in older), sum(each.bytes for each in older)
        lines.append((age, count, size))
    return tuple(lines)


def _bytes(
    groups: Iterable[_Group], own: OwnArea, *, shared_bytes: int, foreign_bytes: int
) -> StoreBytes:
    sums = [(group.bytes, group.allocated) for group in groups]
    return StoreBytes(
        logical=sum(size for size, _ in sums),
        allocated=sum(allocated for _, allocated in sums) - shared_bytes,
        quarantine=_size(own.quarantine),
        tmp=_size(own.tmp),
        index=_size(own.other),
        foreign=foreign_bytes,
    )


def _size(files: Iterable[FileFacts]) -> int:
    return sum(file.size_bytes for file in files)
