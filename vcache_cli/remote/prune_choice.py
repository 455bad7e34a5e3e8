"""Which entries a prune of a remote store removes. Pure."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.errors import UsageError
from vcache_cli.quantity import format_time
from vcache_cli.remote.names import object_name
from vcache_cli.remote.select import by_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vcache_cli.protocols import Layout
    from vcache_cli.remote.catalogue import Catalogue, StoredObject
    from vcache_cli.remote.entries import RemoteEntry
    from vcache_cli.store.prune_scope import PruneScope

__all__ = ["ORPHAN_SECONDS", "Choice", "RemoteDoomed", "choose", "is_old", "needed_by"]

ORPHAN_SECONDS: Final = 86_400.0
"""A push may take that long between its first object and its manifest."""


@dataclass(frozen=True, slots=True)
class RemoteDoomed:
    """An entry, or an object that no manifest needs, which is to go."""

    key: str
    """Of an entry; the name of an object that is none's."""
    sha256: str
    bytes: int
    pushed_seconds: float
    reason: str
    """``aged``, ``unused``, ``selected``, ``size`` or ``orphan``."""

    @property
    def is_entry(self) -> bool:
        """False for an object that no manifest needs."""
        return self.reason != "orphan"

    def as_json(self) -> dict[str, Any]:
        """An element of ``plan`` of ``vcache.prune/1``."""
        used = format_time(self.pushed_seconds)
        return {"key": self.key, "bytes": self.bytes, "reason": self.reason, "used": used}


@dataclass(frozen=True, slots=True)
class Choice:
    """What goes, of what was found."""

    found: Mapping[str, RemoteEntry]
    """All entries, by key."""
    doomed: tuple[RemoteDoomed, ...]
    young_orphans: int


def choose(
    catalogue: Catalogue,
    scope: PruneScope,
    layout: Layout,
    there: Mapping[str, StoredObject],
    grace_seconds: float,
) -> Choice:
    """What a prune of that scope removes, and every object that long was nobody's.

    Raises:
        UsageError: the scope is empty.
    """
    if scope.is_empty:
        raise UsageError(
            "nothing says what to remove",
            hint="give --max-size, --older-than, --unused-for, --model, --stage, --key, --source"
            " or --not-in",
        )
    found, needed = by_key(layout, catalogue.entries.values()), needed_by(catalogue)
    orphans = {digest: each for digest, each in there.items() if digest not in needed}
    old = sorted(digest for digest, each in orphans.items() if is_old(each, grace_seconds))
    doomed = list(_doomed(found, scope, time.time()))
    for digest in old:
        each = orphans[digest]
        doomed.append(
            RemoteDoomed(
                object_name(digest), digest, each.size_bytes, each.mtime_ns / 1e9, "orphan"
            )
        )
    return Choice(found, tuple(doomed), len(orphans) - len(old))


def needed_by(catalogue: Catalogue) -> set[str]:
    """Digests of all objects that a manifest names."""
    return {each.file.sha256 for manifest in catalogue.manifests for each in manifest.entries}


def is_old(found: StoredObject, grace_seconds: float) -> bool:
    """True where no push that goes on can be about to name it."""
    return time.time() - found.mtime_ns / 1e9 >= grace_seconds


def _doomed(found: dict[str, RemoteEntry], scope: PruneScope, now: float) -> Iterator[RemoteDoomed]:
    selected = {key: each for key, each in found.items() if _is_selected(key, each, scope)}
    gone: set[str] = set()
    for key, each in selected.items():
        if reason := _reason(each, scope, now):
            gone.add(key)
            yield _of(key, each, reason)
    if scope.max_size_bytes is None:
        return
    total = sum(each.file.size_bytes for key, each in found.items() if key not in gone)
    oldest_first = sorted(selected, key=lambda key: (selected[key].pushed_seconds, key))
    for key in oldest_first:
        if total <= scope.max_size_bytes:
            return
        if key not in gone:
            each = selected[key]
            total -= each.file.size_bytes
            yield _of(key, each, "size")


def _is_selected(key: str, entry: RemoteEntry, scope: PruneScope) -> bool:
    source = entry.source_sha256
    kept = scope.keep_sources_sha256
    named = (
        kept is None or (source is not None and source not in kept),
        scope.model is None or scope.model == entry.model,
        scope.stage is None or scope.stage == entry.stage,
        scope.keys is None or key in scope.keys,
        scope.sources_sha256 is None or source in scope.sources_sha256,
    )
    return all(named)


def _reason(entry: RemoteEntry, scope: PruneScope, now: float) -> str | None:
    older, unused = scope.older_than_seconds, scope.unused_for_seconds
    if older is not None and now - entry.age_from_seconds > older:
        return "aged"
    if unused is not None and now - entry.pushed_seconds > unused:
        return "unused"
    return None if scope.has_policy else "selected"


def _of(key: str, entry: RemoteEntry, reason: str) -> RemoteDoomed:
    file = entry.file
    return RemoteDoomed(key, file.sha256, file.size_bytes, entry.pushed_seconds, reason)
