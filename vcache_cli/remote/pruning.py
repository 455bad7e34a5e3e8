"""Removing entries from a remote store: manifests are made anew first, objects go after."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.errors import ReadError
from vcache_cli.remote.names import object_name
from vcache_cli.remote.prune_choice import ORPHAN_SECONDS, RemoteDoomed, choose, is_old, needed_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vcache_cli.protocols import Layout
    from vcache_cli.remote.catalogue import Catalogue, RemoteStore, StoredObject
    from vcache_cli.remote.manifest import Manifest
    from vcache_cli.store.prune_scope import PruneScope

__all__ = ["RemotePlan", "RemotePruned", "plan_remote_prune"]

_JOBS: Final = 16
_MAX_LISTED: Final = 1000
_PART: Final = re.compile(r"((objects|manifests)/.+|CACHEDIR\.TAG)\.[0-9a-f]{8}\.part")
"""As `Bucket.write` names what it has not written whole."""


@dataclass(frozen=True, slots=True, eq=False)
class RemotePlan:
    """What a prune would remove."""

    remote: RemoteStore
    layout: Layout
    scope: PruneScope
    catalogue: Catalogue
    doomed: tuple[RemoteDoomed, ...]
    entries: int
    """In the store before."""
    bytes: int
    """Of all entries before."""
    skipped_grace: int
    """Objects that no manifest needs, and that a push may be about to name."""
    grace_seconds: float

    @property
    def place(self) -> str:
        """Where the store is."""
        return self.remote.place.url

    def execute(self) -> RemotePruned:
        """Make the manifests anew without them, and remove the objects that none needs then.

        What is interrupted is done to the end by the next one. A push that goes on meanwhile is
        seen by its manifest, or by the age of its objects.

        Raises:
            AccessError: it may not be written.
        """
        if not self.doomed and not self.catalogue.replaced and not self.catalogue.tied:
            return RemotePruned(self, (), ())
        paths = {self.layout.path_of(each.key) for each in self.doomed if each.is_entry}
        for manifest in self.catalogue.manifests:
            self._rewrite(manifest, paths)
        for name in self.catalogue.replaced:
            self._remove(name.name)
        going = self._going()
        with ThreadPoolExecutor(_JOBS, thread_name_prefix="vcache-prune") as pool:
            told = dict(zip(going, pool.map(self._removed, going), strict=True))
        told |= {each.key: self._deleted(each.key) for each in self.doomed if not each.sha256}
        return self._accounted(told)

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.prune/1`` of a dry run; `after` is what would be."""
        return {**_document(self, dry_run=True), "after": _after(self, self.doomed)}

    def _rewrite(self, manifest: Manifest, paths: set[str]) -> None:
        kept = tuple(each for each in manifest.entries if each.file.path not in paths)
        tied = self.catalogue.tied.get(manifest.name.run, ())
        if len(kept) == len(manifest.entries) and not tied:
            return
        if kept:
            anew = replace(manifest, name=manifest.name.next(), entries=kept)
            try:
                self.remote.bucket.write(self.remote.path(anew.name.name), anew.encoded())
            except ReadError as error:
                raise self.remote.failed(error) from error
        # Without entries it has no successor: the generation that counts goes last.
        older = [each for each in self.catalogue.replaced if each.run == manifest.name.run]
        for name in (*older, *(tied or (manifest.name,))):
            self._remove(name.name)

    def _going(self) -> list[str]:
        """Digests of the objects that no manifest needs now, by what is there now."""
        needed = needed_by(self.remote.catalogue(must_exist=False))
        before = needed_by(self.catalogue)

        def goes(digest: str, found: StoredObject) -> bool:
            return digest not in needed and (digest in before or is_old(found, self.grace_seconds))

        return [digest for digest, found in self.remote.objects().items() if goes(digest, found)]

    def _remove(self, name: str) -> None:
        try:
            self.remote.bucket.remove(self.remote.path(name))
        except ReadError as error:
            raise self.remote.failed(error) from error

    def _removed(self, digest: str) -> str | None:
        return self._deleted(object_name(digest))

    def _deleted(self, name: str) -> str | None:
        """Why it could not be removed; None where it was."""
        try:
            self.remote.bucket.remove(self.remote.path(name))
        except ReadError as error:
            return error.message
        return None

    def _accounted(self, told: dict[str, str | None]) -> RemotePruned:
        removed, failed = [], []
        for each in self.doomed:
            reason = told.get(each.sha256 or each.key)
            if reason is None:
                removed.append(each)
            else:
                failed.append((each, reason))
        gone = {digest for digest, reason in told.items() if reason is None}
        again = gone & needed_by(self.remote.catalogue(must_exist=False)) if gone else set()
        failed += [
            (RemoteDoomed(object_name(digest), digest, 0, 0.0, "orphan"), _AGAIN)
            for digest in sorted(again)
        ]
        return RemotePruned(self, tuple(removed), tuple(failed))


_AGAIN: Final = "a push relied on it meanwhile: push again from where it came"


@dataclass(frozen=True, slots=True, eq=False)
class RemotePruned:
    """What was removed."""

    plan: RemotePlan
    removed: tuple[RemoteDoomed, ...]
    failed: tuple[tuple[RemoteDoomed, str], ...]
    """What could not be removed, or should not have been, and why; that is exit code 3."""

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.prune/1``."""
        document = _document(self.plan, dry_run=False)
        document |= {
            "removed": len(self.removed),
            "removed_bytes": sum(each.bytes for each in self.removed),
            "failed": [
                {"key": each.key, "message": why} for each, why in self.failed[:_MAX_LISTED]
            ],
            "after": _after(self.plan, self.removed),
        }
        if len(self.failed) > _MAX_LISTED:
            document["failed_omitted"] = len(self.failed) - _MAX_LISTED
        return document


def plan_remote_prune(
    remote: RemoteStore,
    scope: PruneScope,
    *,
    layout: Layout,
    catalogue: Catalogue,
    grace_seconds: float = ORPHAN_SECONDS,
) -> RemotePlan:
    """What a prune of that scope removes; nothing is changed.

    Raises:
        UsageError: the scope is empty.
        AccessError: the bucket may not be listed.
    """
    choice = choose(catalogue, scope, layout, remote.objects(), grace_seconds)
    parts = list(_parts_left(remote))
    old = [each for each in parts if time.time() - each.pushed_seconds >= grace_seconds]
    return RemotePlan(
        remote=remote,
        layout=layout,
        scope=scope,
        catalogue=catalogue,
        doomed=(*choice.doomed, *old),
        entries=len(choice.found),
        bytes=sum(each.file.size_bytes for each in choice.found.values()),
        skipped_grace=choice.young_orphans + len(parts) - len(old),
        grace_seconds=grace_seconds,
    )


def _parts_left(remote: RemoteStore) -> Iterator[RemoteDoomed]:
    """What pushes that were killed had not written whole, in a folder: a bucket shows no such."""
    if remote.bucket.scheme != "file":
        return
    try:
        for page in remote.bucket.everything(remote.place.path):
            for each in page:
                name = each.path.removeprefix(f"{remote.place.path}/")
                if _PART.fullmatch(name):
                    yield RemoteDoomed(name, "", each.size_bytes, each.mtime_ns / 1e9, "orphan")
    except ReadError as error:
        raise remote.failed(error) from error


def _document(plan: RemotePlan, *, dry_run: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "dry_run": dry_run,
        "policy": plan.scope.as_json(),
        "recency": "written",
        "before": {"entries": plan.entries, "bytes": plan.bytes},
        "plan": [each.as_json() for each in plan.doomed[:_MAX_LISTED]],
        "removed": 0,
        "removed_bytes": 0,
        "failed": [],
        "skipped": {"grace": plan.skipped_grace, "active_run": 0, "kept": 0},
    }
    if len(plan.doomed) > _MAX_LISTED:
        document["plan_omitted"] = len(plan.doomed) - _MAX_LISTED
    return document


def _after(plan: RemotePlan, gone: Iterable[RemoteDoomed]) -> dict[str, int]:
    sizes = [each.bytes for each in gone if each.is_entry]
    return {"entries": plan.entries - len(sizes), "bytes": plan.bytes - sum(sizes)}
