"""Stores in buckets: opened with the layout of their target, and pulled from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vcache_cli.assemble.targets import load_target
from vcache_cli.assemble.transfer import taking
from vcache_cli.errors import NotAStoreError, RefusedError, VcacheError
from vcache_cli.remote import Fetched, fetch_all, open_remote
from vcache_cli.remote.select import by_key
from vcache_cli.store.archive_parts import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.protocols import Layout
    from vcache_cli.remote import Catalogue, RemoteEntry, RemoteStore
    from vcache_cli.store.archive_parts import ArchivedFile
    from vcache_cli.store.intake import Intake, IntakeResult

__all__ = ["RemoteView", "check_places", "open_remote_store", "pull_entries"]

_ENDS_IT = frozenset({"permission", "no_credentials"})


@dataclass(frozen=True, slots=True, eq=False)
class RemoteView:
    """A remote store and what its manifests say of it now."""

    remote: RemoteStore
    catalogue: Catalogue
    origin: Origin
    layout: Layout
    entries: dict[str, RemoteEntry]
    """By key."""

    @property
    def url(self) -> str:
        """Of the store."""
        return self.remote.place.url

    def of_run(self, run: str) -> frozenset[str]:
        """Keys of one push, of a warm run that was pushed, or of ``last``.

        Raises:
            UsageError: there is none.
        """
        return frozenset(by_key(self.layout, self.catalogue.run(run)))


def open_remote_store(url: str) -> RemoteView:
    """The remote store at `url`.

    Raises:
        UsageError: a URL that cannot be used, or a store of a target that is not installed.
        ModelError: the extra `remote` is not installed.
        NotAStoreError: there is none.
        RefusedError: a manifest cannot be trusted.
        FormatTooNewError, AccessError: it cannot be read.
    """
    remote = open_remote(url)
    catalogue = remote.catalogue()
    origin = catalogue.origin
    if origin is None:
        raise NotAStoreError(f"{remote.place.url} is no store: it was removed meanwhile")
    layout = load_target(origin.target).layout
    check_places(catalogue, layout)
    return RemoteView(remote, catalogue, origin, layout, by_key(layout, catalogue.entries.values()))


def pull_entries(
    view: RemoteView,
    keys: Iterable[str],
    *,
    store: Path,
    options: WarmOptions,
    jobs: int = 16,
) -> IntakeResult:
    """Store entries of a remote store. Each is compared with its digest and checked whole first.

    What is in the store already is not read from the bucket. What ends it early is `error` of the
    result; what was stored before stays.

    Args:
        view: where they are.
        keys: of the wanted ones.
        store: made where there is none.
        options: the limits of the store; nothing else of them is looked at.
        jobs: objects read at once.

    Raises:
        RefusedError: the store is of another target or other options.
        NotAStoreError, FormatTooNewError, AccessError, StoreFullError, LockBusyError: it cannot be
            written.
    """
    wanted = [(key, view.entries[key].file) for key in sorted(keys)]
    origin = Origin(view.origin.target, view.origin.target_options)
    with taking(store, origin, options) as (_, intake, result):
        try:
            for fetched in fetch_all(view.remote, _missing(intake, wanted), jobs=jobs):
                _take(view.remote, intake, result, fetched)
        except (VcacheError, OSError) as error:
            result.error = result.error or error
    return result


def _missing(
    intake: Intake, wanted: Iterable[tuple[str, ArchivedFile]]
) -> Iterator[tuple[str, ArchivedFile]]:
    for key, file in wanted:
        standing = intake.standing(key, file)
        if standing in {"present", "kept"}:
            intake.leave(key, standing)
        else:
            yield key, file


def _take(remote: RemoteStore, intake: Intake, result: IntakeResult, fetched: Fetched) -> None:
    key, file = fetched.key, fetched.file
    result.read_bytes += len(fetched.data)
    if fetched.error and fetched.kind in _ENDS_IT:
        raise remote.failed(fetched.error)
    if fetched.kind:
        kind = fetched.kind if fetched.error is None else "io_error"
        result.remarks.fail(key, kind, fetched.message)
        return
    fault = intake.fault(file, fetched.data)
    if fault is not None:
        result.remarks.fail(key, fault.finding, fault.message)
        return
    intake.put(key, file, fetched.data, intake.standing(key, file))


def check_places(catalogue: Catalogue, layout: Layout) -> None:
    """The rules of a manifest that only a layout can tell.

    Raises:
        RefusedError: an entry lies at no place of one, or is larger than any.
    """
    most_bytes = layout.limits.max_file_bytes
    for path, entry in catalogue.entries.items():
        key = layout.key_of(path)
        if key is None or layout.path_of(key) != path or entry.file.size_bytes > most_bytes:
            raise RefusedError(
                f"a manifest that cannot be used: {path!r:.120} is no place of an entry, or larger"
                " than any",
                hint="take it from a store that you trust, or have the manifest removed",
            )
