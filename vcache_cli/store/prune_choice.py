"""Which entries a prune removes, and in which order: the least valuable first."""

from __future__ import annotations

import heapq
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vcache_cli.items import display_path
from vcache_cli.store.index_values import pack_key, unpack_key
from vcache_cli.store.locks import writers_active
from vcache_cli.store.prune_scope import Doomed
from vcache_cli.store.quarantine import quarantined_seconds
from vcache_cli.store.rows import VANISHED, mtime_ns_of
from vcache_cli.store.runs import live_keys
from vcache_cli.store.scan import scan_own

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Final

    from vcache_cli.store.index import Index
    from vcache_cli.store.index_values import Packed
    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.prune_scope import PruneScope

__all__ = ["DEAD_TEMP_SECONDS", "Chooser"]

DEAD_TEMP_SECONDS: Final = 3600.0
"""A temp older than this was left by a killed writer: no writer needs an hour for one file."""

_ORDER: Final = ("incompatible", "aged", "unused", "selected", "size")
_INCOMPATIBLE: Final = (
    "label IN (SELECT id FROM labels WHERE finding IS NOT NULL AND finding != 'io_error')"
)
_COLUMNS: Final = f"key, used, bytes, created, dated, source, {_INCOMPATIBLE}"
_TYPES: Final = (bytes | str, int, int, int, int, bytes | str | None, int | None)
_FEW_COLUMNS: Final = "key, used, bytes, 0, 0, NULL, 0"
"""What the index by use covers: a plan by size alone reads no row."""


class _Candidate(NamedTuple):
    """An entry as the index has it; a use since then is not in it."""

    key: Packed
    used_ns: int
    bytes: int
    created_seconds: int
    dated: int
    source: Packed | None
    incompatible: int


class Chooser:
    """One choice. Reads the index and each doomed file's stat; changes nothing."""

    def __init__(
        self, root: StoreRoot, index: Index, scope: PruneScope, now: float, grace_seconds: float
    ) -> None:
        self.young: set[str] = set()
        """Keys in the scope that are left because they are young and someone is writing."""
        self.in_live_run: set[str] = set()
        """Keys in the scope that are left because a live run has met them."""
        self.unseen: dict[str, str] = {}
        """Paths below the root that could not be looked at, and why."""
        self._absent: set[Packed] = set()
        self._absent_bytes = 0
        """Of entries that are gone or cannot be looked at: no other goes in their place."""
        self._root, self._index, self._scope, self._now = root, index, scope, now
        foreign_server = not root.meta.store_id
        guarded = grace_seconds > 0 and (foreign_server or writers_active(root))
        self._young_ns = int((now - grace_seconds) * 1e9) if guarded else None
        self._live = live_keys(root) if guarded else frozenset[str]()

    def leftovers(self, quarantine_seconds: float) -> list[Doomed]:
        """Dead temps and expired evidence, oldest first."""
        own = scan_own(self._root.path)
        self.unseen.update(own.errors)
        files = [
            (file, "temp")
            for file in own.tmp
            if self._now - file.mtime_ns / 1e9 > DEAD_TEMP_SECONDS
        ]
        files += [
            (file, "quarantine")
            for file in own.quarantine
            if self._now - quarantined_seconds(file) >= quarantine_seconds
        ]
        return [
            Doomed(
                display_path(file.path),
                file.path,
                file.size_bytes,
                file.mtime_ns,
                file.inode,
                reason,
            )
            for file, reason in files
        ]

    def entries(self) -> list[Doomed]:
        """Entries by the worth that they are assumed to have: the least first."""
        named = self._named()
        if self._scope.max_size_bytes is None:
            return named
        gone = {each.key for each in named}
        total = self._index.totals().logical_bytes - sum(each.bytes for each in named)
        return [*named, *self._down_to(self._scope.max_size_bytes, total, gone)]

    def _named(self) -> list[Doomed]:
        """What goes whatever the store's size is."""
        scope = self._scope
        if scope.has_policy and not self._policies():
            return []
        doomed = []
        for candidate in self._candidates(self._policies()):
            found = self._stat(candidate)
            reason = found and self._reason(candidate, found)
            if found and reason and self._is_free(found):
                doomed.append(found._replace(reason=reason))
        doomed.sort(key=lambda each: (_ORDER.index(each.reason), each.used_ns, each.key))
        return doomed

    def _policies(self) -> str:
        """SQL that holds for every entry that any policy but the size may name."""
        scope, parts = self._scope, []
        if scope.incompatible:
            parts.append(_INCOMPATIBLE)
        if scope.older_than_seconds is not None:
            parts.append(f"created <= {int(self._now - scope.older_than_seconds)}")
            if scope.older_than_seconds <= 0:
                parts.append("1")  # a creation time in the future is no age
        if scope.unused_for_seconds is not None:
            moment_ns = int((self._now - scope.unused_for_seconds) * 1e9) + 1000
            parts.append(f"used <= {moment_ns}")  # a little more: each is looked at again
            if scope.unused_for_seconds <= 0:
                parts.append("1")
        return " OR ".join(parts)

    def _candidates(self, policies: str, order: str = "") -> Iterator[_Candidate]:
        """Selected entries that `policies` hold for."""
        scope = self._scope
        where = [f"({policies})"] if policies else ["1"]
        values: list[object] = []
        for column, value in (("model", scope.model), ("stage", scope.stage)):
            if value is not None:
                where.append(f"label IN (SELECT id FROM labels WHERE {column} IS ?)")  # noqa: S608
                values.append(display_path(value))  # as labels are stored
        is_selected = self._selection()
        columns = _COLUMNS if policies or is_selected.is_narrow else _FEW_COLUMNS
        sql = f"SELECT {columns} FROM entries WHERE {' AND '.join(where)} {order}"  # noqa: S608
        for row in self._index.stream(sql, values, types=_TYPES):
            candidate = _Candidate(*row)
            if is_selected(candidate):
                yield candidate

    def _selection(self) -> _Selection:
        scope = self._scope
        return _Selection(
            _packed(scope.keys), _packed(scope.sources_sha256), _packed(scope.keep_sources_sha256)
        )

    def _reason(self, candidate: _Candidate, found: Doomed) -> str | None:
        """Why it goes, by what its file says now; None where it was used since."""
        scope = self._scope
        if scope.incompatible and candidate.incompatible:
            return "incompatible"
        if scope.older_than_seconds is not None:
            created = candidate.created_seconds if candidate.dated else found.used_ns / 1e9
            if max(0.0, self._now - created) >= scope.older_than_seconds:
                return "aged"
        idle = max(0.0, self._now - found.used_ns / 1e9)
        if scope.unused_for_seconds is not None and idle >= scope.unused_for_seconds:
            return "unused"
        return None if scope.has_policy else "selected"

    def _down_to(self, max_size_bytes: int, total_bytes: int, gone: set[str]) -> list[Doomed]:
        """What has to go besides until the rest fits."""
        doomed: list[Doomed] = []
        for found in self._by_worth():
            if total_bytes - self._absent_bytes <= max_size_bytes:
                break
            if found.key not in gone and self._is_free(found):
                doomed.append(found)
                gone.add(found.key)
                total_bytes -= found.bytes
        return doomed

    def _by_worth(self) -> Iterator[Doomed]:
        """Selected entries: those that no reader can use first, then by their last use."""
        yield from self._by_use(self._candidates(_INCOMPATIBLE, "ORDER BY used, bytes"))
        yield from self._by_use(self._candidates("", "ORDER BY used, bytes"))

    def _by_use(self, candidates: Iterable[_Candidate]) -> Iterator[Doomed]:
        """Exactly in the order of last use, though the index may not have seen the latest.

        An mtime only grows, so a file whose mtime is later than known waits for its turn.
        """
        waiting: list[tuple[int, int, Doomed]] = []
        for number, candidate in enumerate(candidates):
            while waiting and waiting[0][0] <= candidate.used_ns:
                yield heapq.heappop(waiting)[2]
            found = self._stat(candidate)
            if found is not None and found.used_ns > candidate.used_ns:
                heapq.heappush(waiting, (found.used_ns, number, found))
            elif found is not None:
                yield found
        while waiting:
            yield heapq.heappop(waiting)[2]

    def _stat(self, candidate: _Candidate) -> Doomed | None:
        """The file as it is now; None where it is gone, or cannot be looked at."""
        key = unpack_key(candidate.key)
        path = self._root.layout.path_of(key)
        try:
            found = os.lstat(os.path.join(self._root.path, path))
        except OSError as error:
            if error.errno not in VANISHED:
                self.unseen[path] = error.strerror or str(error)
            if candidate.key not in self._absent:
                self._absent.add(candidate.key)
                self._absent_bytes += candidate.bytes
            return None
        return Doomed(key, None, found.st_size, mtime_ns_of(found), found.st_ino, "size")

    def _is_free(self, found: Doomed) -> bool:
        """False where a run in progress may still want it."""
        if self._young_ns is None:
            return True
        if found.used_ns > self._young_ns:
            self.young.add(found.key)
            return False
        if found.key in self._live:
            self.in_live_run.add(found.key)
            return False
        return True


@dataclass(frozen=True, slots=True)
class _Selection:
    """The part of a scope that is sets."""

    keys: frozenset[Packed] | None
    sources: frozenset[Packed] | None
    kept_sources: frozenset[Packed] | None

    @property
    def is_narrow(self) -> bool:
        """True where any set is given."""
        return any(part is not None for part in (self.keys, self.sources, self.kept_sources))

    def __call__(self, candidate: _Candidate) -> bool:
        """True where the entry is in all sets that are given."""
        if self.keys is not None and candidate.key not in self.keys:
            return False
        if self.sources is not None and candidate.source not in self.sources:
            return False
        if self.kept_sources is None:
            return True
        return candidate.source is not None and candidate.source not in self.kept_sources


def _packed(texts: Iterable[str] | None) -> frozenset[Packed] | None:
    return None if texts is None else frozenset(pack_key(text) for text in texts)
