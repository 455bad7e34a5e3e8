"""Entries of a store to a bucket: what is missing there, and a manifest that says what belongs."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.errors import ReadError, RefusedError, VcacheError
from vcache_cli.remote.entries import RemoteEntry
from vcache_cli.remote.manifest import Manifest
from vcache_cli.remote.names import TAG_NAME, ManifestName, object_name
from vcache_cli.store.archive_parts import Origin
from vcache_cli.store.export import StoreFiles
from vcache_cli.store.meta import differences
from vcache_cli.store.remarks import Remarks

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from vcache_cli.remote.catalogue import Catalogue, RemoteStore, StoredObject
    from vcache_cli.store.archive_parts import ArchivedFile
    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.rows import EntryRow

__all__ = ["ENDS_IT", "TAG", "Chosen", "PushResult", "check_same", "push_store"]

_MOST_HELD_BYTES: Final = 256 * 1024**2
TAG: Final = (
    b"Signature: 8a477f597d28d172789f06886806bc55\n"
    b"# A store of vision cache entries, pushed by vcache. See `vcache stats URL`.\n"
)
ENDS_IT: Final = frozenset({"permission", "no_credentials", "not_found", "store_full"})
"""Kinds of failures that all objects after the first would meet."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which entries of a store are pushed, and what is known of them."""

    rows: Mapping[str, EntryRow]
    """Of the store's index, by key."""
    wanted: Container[str] | None = None
    """Keys; None for all."""
    warm_run: str = ""
    """Whose entries these are; empty where they are not one run's."""


@dataclass(slots=True)
class PushResult:
    """What a push did."""

    target: str
    run: str = ""
    """The push whose manifest has these entries; empty where none was written."""
    counts: Counter[str] = field(default_factory=Counter)
    """``pushed``, ``present``, or ``kept``: other bytes of that key are there, and stay."""
    read_bytes: int = 0
    written_bytes: int = 0
    vanished: int = 0
    seconds: float = 0.0
    remarks: Remarks = field(default_factory=Remarks)
    error: VcacheError | None = None
    """What ended it early; what was written stays, and the next push goes on from there."""

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.push/1``."""
        names = ("pushed", "present", "kept")
        entries = {name: self.counts[name] for name in names}
        failed = self.remarks.failed.total()
        return {
            "target": self.target,
            "run": self.run or None,
            "entries": {"total": sum(entries.values()) + failed, **entries, "failed": failed},
            "bytes": {"read": self.read_bytes, "written": self.written_bytes},
            "vanished": self.vanished,
            "seconds": {"total": self.seconds},
            "complete": self.error is None,
            **self.remarks.as_json(),
        }


def push_store(
    root: StoreRoot,
    remote: RemoteStore,
    chosen: Chosen,
    *,
    jobs: int = 16,
) -> PushResult:
    """Write what is missing, then the manifest. Run again after an interruption, it goes on.

    Args:
        root: the store.
        remote: where to.
        chosen: which entries.
        jobs: objects written at once.

    Raises:
        RefusedError: a store of another kind is there, or someone else could have filled ours.
        AccessError, NotAStoreError: the bucket cannot be read, or is missing.
    """
    started = time.monotonic()
    result = PushResult(root.meta.target)
    before = remote.catalogue(must_exist=False)
    check_same(Origin(root.meta.target, root.meta.target_options), before.origin, remote)
    with ThreadPoolExecutor(jobs, thread_name_prefix="vcache-push") as pool:
        push = _Push(remote, before, result, pool)
        try:
            push.take(StoreFiles(root, result.remarks, chosen.wanted), chosen.rows)
            push.finish(Origin(root.meta.target, root.meta.target_options), chosen.warm_run)
        except VcacheError as error:
            result.error = error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    result.seconds = time.monotonic() - started
    return result


class _Push:
    """One push."""

    def __init__(
        self,
        remote: RemoteStore,
        before: Catalogue,
        result: PushResult,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._remote, self._before, self._result, self._pool = remote, before, result, pool
        self._there: dict[str, StoredObject] = remote.objects()
        self._entries: list[RemoteEntry] = []
        self._relied: set[str] = set()
        """Digests that were there already."""
        self._pending: dict[Future[None], tuple[str, RemoteEntry]] = {}
        self._held_bytes = 0

    def take(self, files: StoreFiles, rows: Mapping[str, EntryRow]) -> None:
        """Write what is missing of `files`."""
        for key, file, data in files:
            self._result.read_bytes += file.size_bytes
            standing, entry = self._standing(file, rows.get(key))
            if standing == "absent":
                self._submit(key, entry, data)
                continue
            self._result.counts[standing] += 1
            self._entries.append(entry)
            self._relied.add(entry.file.sha256)
            if standing == "kept":
                told = "another entry of this key is there, and was kept"
                self._result.remarks.warn(key, "conflict", told)
        self._result.vanished = files.vanished

    def finish(self, origin: Origin, warm_run: str) -> None:
        """Wait for what is being written, and say what belongs together."""
        self._settle(until=0)
        if self._result.error or not self._entries:
            return  # half a push is no run: the next one finds its objects by their names
        self._entries.sort(key=lambda each: each.file.path)
        contents = {each.file.path: each.file.sha256 for each in self._entries}
        for each in self._before.manifests:
            if each.contents == contents and each.warm_run in {"", warm_run}:
                self._result.run = each.name.run
                break
        else:
            name = ManifestName.new()
            manifest = Manifest(name, origin, tuple(self._entries), warm_run)
            self._write(TAG_NAME, TAG)
            self._write(name.name, manifest.encoded())
            self._result.run = name.run
            self._look_again()

    def _standing(self, file: ArchivedFile, row: EntryRow | None) -> tuple[str, RemoteEntry]:
        mine = RemoteEntry.of(file, row)
        known = self._before.entries.get(file.path)
        if known and known.file.sha256 != file.sha256 and self._has(known.file):
            return "kept", known
        return ("present" if self._has(file) else "absent"), mine

    def _has(self, file: ArchivedFile) -> bool:
        found = self._there.get(file.sha256)
        return found is not None and found.size_bytes == file.size_bytes

    def _submit(self, key: str, entry: RemoteEntry, data: bytes) -> None:
        if self._pending:
            self._settle(until=max(0, _MOST_HELD_BYTES - len(data)))
        if isinstance(self._result.error, VcacheError):
            raise self._result.error
        self._held_bytes += len(data)
        path = self._remote.path(object_name(entry.file.sha256))
        done = self._pool.submit(self._remote.bucket.write, path, data)
        self._pending[done] = (key, entry)

    def _settle(self, *, until: int) -> None:
        """Count what is written; wait while more than `until` bytes are being written."""
        while self._pending:
            over = self._held_bytes > until
            done, _ = wait(self._pending, None if over else 0, FIRST_COMPLETED)
            for each in done:
                self._count(*self._pending.pop(each), each)
            if not over and not done:
                return

    def _count(self, key: str, entry: RemoteEntry, done: Future[None]) -> None:
        self._held_bytes -= entry.file.size_bytes
        try:
            done.result()
        except ReadError as error:
            self._result.remarks.fail(key, "io_error", f"not written: {error.message}")
            if error.item_kind in ENDS_IT and self._result.error is None:
                self._result.error = self._remote.failed(error)
            return
        self._result.counts["pushed"] += 1
        self._result.written_bytes += entry.file.size_bytes
        self._entries.append(entry)

    def _look_again(self) -> None:
        """A prune may have removed what was relied on, before it could see our manifest."""
        if not self._relied:
            return
        there = self._remote.objects()
        for each in self._entries:
            if each.file.sha256 in self._relied and each.file.sha256 not in there:
                told = "a prune removed it meanwhile; push again"
                self._result.remarks.fail(each.file.path, "io_error", told)

    def _write(self, name: str, data: bytes) -> None:
        try:
            self._remote.bucket.write(self._remote.path(name), data)
        except ReadError as error:
            raise self._remote.failed(error) from error


def check_same(mine: Origin, theirs: Origin | None, remote: RemoteStore) -> None:
    """Keep entries of another kind away from `remote`.

    Args:
        mine: of what is to be written.
        theirs: what is there; None: nothing.
        remote: the place.

    Raises:
        RefusedError: they differ.
    """
    if theirs is None:
        return
    hint = "name another place"
    if mine.target != theirs.target:
        raise RefusedError(
            f"{remote.place.url} is a store of target `{theirs.target}`, not `{mine.target}`",
            hint=hint,
        )
    if found := differences(mine.target_options, theirs.target_options):
        raise RefusedError(f"{remote.place.url} is a store of other options: {found}", hint=hint)
