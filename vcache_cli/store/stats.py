"""What a store holds, in numbers: quickly from the index, or by walking the truth."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from vcache_cli.items import display_path
from vcache_cli.store.empties import count_empties
from vcache_cli.store.examine import examine_store, server_document
from vcache_cli.store.filesystem import Filesystem, filesystem_of
from vcache_cli.store.index import open_index
from vcache_cli.store.runs import Run, last_run
from vcache_cli.store.scan import allocated_once, scan_own, scan_store
from vcache_cli.store.stats_sums import (
    Group,
    GroupStats,
    sum_by_age,
    sum_by_kind,
    sum_by_model,
    sum_groups,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vcache_cli.protocols import ServerView
    from vcache_cli.store.index import Index
    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.rows import FileFacts
    from vcache_cli.store.scan import OwnArea, Scan

__all__ = ["GroupStats", "Limit", "StoreBytes", "StoreStats", "store_stats"]


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
    empty_directories: int | None = None
    """That might hold an entry and hold nothing; None where entries share theirs."""
    last_run: Run | None = None
    limits: Mapping[str, Limit] = field(default_factory=dict)
    recency: Literal["used", "written"] = "used"
    """What an mtime says: nobody marks a use in a server's own store."""
    server: ServerView | None = None
    """What the server makes of it, where its layout knows."""

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
            "recency": self.recency,
            "limits": {name: limit.as_json() for name, limit in self.limits.items()},
            "fs": self.fs.as_json(),
            "index": index,
        }
        if self.empty_directories is not None:
            value["empty_directories"] = self.empty_directories
        if self.last_run is not None:
            value["last_run"] = self.last_run.as_json()
        if self.drift_entries is not None:
            index["drift_entries"] = self.drift_entries
            value["foreign_files"] = list(self.foreign_files)
            value["unreadable"] = [
                {"path": path, "message": reason} for path, reason in self.unreadable
            ]
        if self.server is not None:
            value["server"] = server_document(self.server)
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
        groups = sum_groups(index, int(time.time() if now is None else now))
        empties = count_empties(root, index)
        shared, foreign, state = index.shared_bytes(), index.foreign_bytes(), index.state
    own = scan_own(root.path)  # after the index is closed and its log is gone
    stats = StoreStats(
        target=root.meta.target,
        entries=sum(group.entries for group in groups),
        bytes=_bytes(groups, own, shared_bytes=shared, foreign_bytes=foreign),
        by_model=sum_by_model(groups),
        by_kind=sum_by_kind(groups),
        by_age=sum_by_age(groups),
        fs=filesystem_of(root.path),
        index_state=state,
        drift_entries=drift,
        empty_directories=empties,
        last_run=last_run(root),
        limits=dict(limits or {}),
        recency="used" if root.meta.store_id else "written",
        server=examine_store(root, scan=walked, now=now),
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


def _bytes(
    groups: Iterable[Group], own: OwnArea, *, shared_bytes: int, foreign_bytes: int
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
