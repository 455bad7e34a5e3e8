"""Removing entries: a scope becomes a plan, and the deed is the plan."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import StoreFullError, UsageError
from vcache_cli.items import display_path
from vcache_cli.quantity import format_time
from vcache_cli.store.create import write_meta
from vcache_cli.store.empties import doomed_empties
from vcache_cli.store.files import OsFiles
from vcache_cli.store.handles import Handles
from vcache_cli.store.index import open_index
from vcache_cli.store.locks import gc_lock
from vcache_cli.store.prune_choice import Chooser
from vcache_cli.store.prune_deed import Remover
from vcache_cli.store.prune_scope import Doomed, PruneScope
from vcache_cli.store.quarantine import QUARANTINE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import Final

    from vcache_cli.store.files import FileOps
    from vcache_cli.store.meta import StoreRoot

__all__ = ["GRACE_SECONDS", "PrunePlan", "PruneResult", "PruneScope", "plan_prune"]

GRACE_SECONDS: Final = 600.0
"""Entries younger than this are left to a run in progress."""
MAX_LISTED: Final = 1_000
"""Elements of a list in a document."""


def plan_prune(
    root: StoreRoot,
    scope: PruneScope,
    *,
    grace_seconds: float = GRACE_SECONDS,
    quarantine_seconds: float = QUARANTINE_SECONDS,
    now: float | None = None,
) -> PrunePlan:
    """What would be removed: leftovers, then the scope.

    Leftovers are temps of killed writers, expired quarantine, and empty directories of entries.

    Args:
        root: the store; planning changes nothing and works on one that is read-only.
        scope: what is to go.
        grace_seconds: entries younger than this are left out while anyone writes, and so are
            those that a live run has met; always in a server's own store; never where it is 0.
        quarantine_seconds: older evidence goes.
        now: seconds since 1970, from which ages count.

    Raises:
        UsageError: the scope is empty.
    """
    if scope.is_empty:
        raise UsageError(
            "nothing says what to remove",
            hint="give --max-size, --older-than, --unused-for, --model, --stage, --key, --source,"
            " --not-in or --incompatible",
        )
    moment = time.time() if now is None else now
    with open_index(root) as index:
        refreshed = index.refresh()
        chooser = Chooser(root, index, scope, moment, grace_seconds)
        chooser.unseen.update(refreshed.unseen)
        doomed = (
            *chooser.leftovers(quarantine_seconds),
            *doomed_empties(root, index, moment),
            *chooser.entries(),
        )
        totals = index.totals()
    return PrunePlan(
        root=root,
        scope=scope,
        doomed=doomed,
        entries=totals.entries,
        bytes=totals.logical_bytes,
        now_seconds=moment,
        skipped_grace=len(chooser.young),
        skipped_active_run=len(chooser.in_live_run),
        unseen=tuple(sorted(chooser.unseen.items())),
    )


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """What would be removed, in that order."""

    root: StoreRoot
    scope: PruneScope
    doomed: tuple[Doomed, ...]
    entries: int
    """In the store before."""
    bytes: int
    """Of all entries before, as sizes of files."""
    now_seconds: float = 0.0
    """When it was made, since 1970."""
    skipped_grace: int = 0
    """Entries in the scope that are left because they are young and someone is writing."""
    skipped_active_run: int = 0
    """Entries in the scope that are left because a live run has met them."""
    unseen: tuple[tuple[str, str], ...] = ()
    """(path below the root, why it could not be listed or looked at), sorted: what lies there is
    left, and nothing else goes in its place."""

    @property
    def place(self) -> Path:
        """Where the store is."""
        return self.root.path

    def execute(self, *, files: FileOps | None = None) -> PruneResult:
        """Remove what the plan says, and nothing else; needs no free space.

        A file that was touched or replaced since is kept; a failure does not end the work. Where
        nothing is to be removed, nothing is touched.

        Raises:
            LockBusyError: another process prunes or repairs.
            AccessError: the store is read-only.
            RefusedError: everyone may write to it, and its ``.vcache`` is another user's.
        """
        if not self.doomed:
            return PruneResult(self, ())
        with suppress(StoreFullError):  # then the next command tells by what is left
            write_meta(self.root.path, self.root.meta)
        removed: list[Doomed] = []
        failed: list[tuple[Doomed, str]] = []
        with gc_lock(self.root), Handles(files or OsFiles(), self.root.path) as handles:
            remove = Remover(self.root, handles, self.now_seconds)
            try:
                for each in self.doomed:
                    failure = remove(each)
                    if failure is None:
                        removed.append(each)
                    elif failure:
                        failed.append((each, failure))
            finally:
                _forget(self.root, removed)
        kept = len(self.doomed) - len(removed) - len(failed)
        return PruneResult(self, tuple(removed), tuple(failed), kept)

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.prune/1`` of a dry run; `after` is what would be."""
        return {**_document(self, dry_run=True), "after": _after(self, self.doomed)}


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What was removed."""

    plan: PrunePlan
    removed: tuple[Doomed, ...]
    failed: tuple[tuple[Doomed, str], ...] = ()
    """What could not be removed, and why; such a result is exit code 3."""
    kept: int = 0
    """Files that changed or vanished after the plan was made, and so were left."""
    removed_bytes: int = field(init=False)
    """Sizes of the files that were unlinked."""

    def __post_init__(self) -> None:
        """Sum up."""
        object.__setattr__(self, "removed_bytes", sum(each.bytes for each in self.removed))

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.prune/1``."""
        document = _document(self.plan, dry_run=False)
        shown = self.failed[:MAX_LISTED]
        document |= {
            "removed": len(self.removed),
            "removed_bytes": self.removed_bytes,
            "failed": [{"key": each.key, "message": reason} for each, reason in shown],
            "skipped": {**document["skipped"], "kept": self.kept},
            "after": _after(self.plan, self.removed),
        }
        if len(self.failed) > MAX_LISTED:
            document["failed_omitted"] = len(self.failed) - MAX_LISTED
        return document


def _document(plan: PrunePlan, *, dry_run: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "dry_run": dry_run,
        "policy": plan.scope.as_json(),
        "recency": "used" if plan.root.meta.store_id else "written",
        "before": {"entries": plan.entries, "bytes": plan.bytes},
        "plan": [
            {
                "key": each.key,
                "bytes": each.bytes,
                "reason": each.reason,
                "used": format_time(each.used_ns / 1e9),
            }
            for each in plan.doomed[:MAX_LISTED]
        ],
        "removed": 0,
        "removed_bytes": 0,
        "failed": [],
        "skipped": {
            "grace": plan.skipped_grace,
            "active_run": plan.skipped_active_run,
            "kept": 0,
        },
    }
    if plan.unseen:
        document["unseen"] = [
            {"path": display_path(path) or ".", "message": reason}
            for path, reason in plan.unseen[:MAX_LISTED]
        ]
    if len(plan.unseen) > MAX_LISTED:
        document["unseen_omitted"] = len(plan.unseen) - MAX_LISTED
    if len(plan.doomed) > MAX_LISTED:
        document["plan_omitted"] = len(plan.doomed) - MAX_LISTED
    return document


def _after(plan: PrunePlan, removed: Iterable[Doomed]) -> dict[str, int]:
    sizes = [each.bytes for each in removed if each.is_entry]
    return {"entries": plan.entries - len(sizes), "bytes": plan.bytes - sum(sizes)}


def _forget(root: StoreRoot, removed: Iterable[Doomed]) -> None:
    """Take the rows out of the index; on a full disk that fails, and the next refresh does it."""
    with open_index(root, mode="w") as index:
        for each in removed:
            if each.is_entry:
                index.remove(each.key)
