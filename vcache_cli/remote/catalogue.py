"""What all manifests of a remote store say together, and which objects are there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from vcache_cli.buckets import Place, as_run_error, open_bucket, parse_place
from vcache_cli.errors import NotAStoreError, ReadError, RefusedError, UsageError, VcacheError
from vcache_cli.remote.manifest import MAX_MANIFEST_BYTES, Manifest, manifest_of
from vcache_cli.remote.names import MANIFESTS, OBJECTS, ManifestName, object_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vcache_cli.buckets import Bucket, Found
    from vcache_cli.remote.entries import RemoteEntry
    from vcache_cli.store.archive_parts import Origin

__all__ = ["Catalogue", "RemoteStore", "StoredObject", "open_remote"]

MAX_MANIFESTS: Final = 100_000


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object that may be an entry's bytes, by its name."""

    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The manifests that count, oldest push first, and those that a later one has replaced."""

    manifests: tuple[Manifest, ...] = ()
    replaced: tuple[ManifestName, ...] = ()
    tied: dict[str, tuple[ManifestName, ...]] = field(default_factory=dict)
    """By run, where two prunes have made its manifest anew at once: both count."""
    entries: dict[str, RemoteEntry] = field(default_factory=dict)
    """By path; where pushes differ, as the latest one has it."""

    @property
    def origin(self) -> Origin | None:
        """What kind of store it is; None where nothing was pushed."""
        return self.manifests[-1].origin if self.manifests else None

    def run(self, run: str) -> tuple[RemoteEntry, ...]:
        """Entries of a push, of a warm run that was pushed or wrote there, or of ``last``.

        Raises:
            UsageError: there is none.
        """
        named = [each for each in self.manifests if run in {each.name.run, "last"}][-1:]
        warm_run = named[0].warm_run if named and run == "last" else run
        if warm_run:
            named = [each for each in self.manifests if each.warm_run == warm_run] or named
        if not named:
            latest = ", ".join(each.name.run for each in self.manifests[-3:])
            raise UsageError(f"no run `{run}` was pushed there; the latest: {latest or 'none'}")
        return tuple({e.file.path: e for each in named for e in each.entries}.values())

    def has_run(self, contents: Mapping[str, str]) -> bool:
        """True where one push, or all manifests of one warm run, have just these `contents`.

        Args:
            contents: digests by path.
        """
        groups: dict[str, list[Manifest]] = {}
        for each in self.manifests:
            groups.setdefault(each.warm_run or each.name.run, []).append(each)
        return any(
            sum(len(each.entries) for each in same) >= len(contents)
            and {path: sha for each in same for path, sha in each.contents.items()} == contents
            for same in groups.values()
        )


@dataclass(frozen=True, slots=True, eq=False)
class RemoteStore:
    """A place in a bucket, as a store. Any thread."""

    place: Place
    bucket: Bucket

    def path(self, name: str) -> str:
        """Of the object of that name."""
        return self.place.below(name).path

    def failed(self, error: ReadError) -> VcacheError:
        """What ends a run where `error` was met."""
        return as_run_error(error, self.place)

    def catalogue(self, *, jobs: int = 16, must_exist: bool = True) -> Catalogue:
        """All manifests, read and checked.

        Raises:
            NotAStoreError: there is none, unless it need not exist.
            RefusedError: one cannot be trusted, or they are of different stores.
            FormatTooNewError: one is of a newer vcache.
            AccessError: it may not be read.
        """
        names = sorted(self._manifest_names())
        if not names and must_exist:
            raise NotAStoreError(
                f"{self.place.url} is no store: no manifest lies there",
                hint="`vcache push URL --store DIR` or `vcache warm --store URL` makes one",
            )
        with ThreadPoolExecutor(jobs, thread_name_prefix="vcache-manifest") as pool:
            read = [each for each in pool.map(self._read, names) if each]
        return _together(read, self.place)

    def objects(self) -> dict[str, StoredObject]:
        """Every object that may be an entry, by digest; a listing of thousands at a time.

        Raises:
            AccessError: it may not be listed.
        """
        found: dict[str, StoredObject] = {}
        for each in self._listed(OBJECTS):
            digest = object_digest(self._name(each))
            if digest:
                found[digest] = StoredObject(each.size_bytes, each.mtime_ns)
        return found

    def _manifest_names(self) -> Iterator[ManifestName]:
        for count, each in enumerate(self._listed(MANIFESTS), 1):
            name = ManifestName.parse(self._name(each))
            if count > MAX_MANIFESTS or each.size_bytes > MAX_MANIFEST_BYTES:
                raise RefusedError(f"{self.place.url}: more manifests, or longer ones, than any")
            if name:
                yield name

    def _listed(self, folder: str) -> Iterator[Found]:
        try:
            for page in self.bucket.everything(self.path(folder)):
                yield from page
        except ReadError as error:
            if error.item_kind != "not_found":
                raise self.failed(error) from error
            if self.bucket.scheme in {"memory", "file"}:
                return  # a folder that is not there yet, which an S3 service tells as empty
            raise NotAStoreError(f"{self.place.url}: no such bucket", hint=error.hint) from error

    def _name(self, found: Found) -> str:
        prefix = f"{self.place.path}/" if self.place.path else ""
        return found.path.removeprefix(prefix)

    def _read(self, name: ManifestName) -> Manifest | None:
        """None where it vanished since it was listed: a prune has replaced it."""
        try:
            data = self.bucket.read(self.path(name.name), MAX_MANIFEST_BYTES)
        except ReadError as error:
            if error.item_kind == "not_found":
                return None
            raise self.failed(error) from error
        try:
            return manifest_of(data, name)
        except VcacheError as error:
            raise type(error)(
                f"{self.place.url}/{name.name}: {error.message}", hint=error.hint
            ) from error


def open_remote(url: str) -> RemoteStore:
    """The remote store at `url`; nothing is asked of it yet.

    Raises:
        UsageError: a URL that cannot be used.
        ModelError: the extra `remote` is not installed.
    """
    place = parse_place(url)
    return RemoteStore(place, open_bucket(place))


def _together(read: Iterable[Manifest], place: Place) -> Catalogue:
    by_run: dict[str, list[Manifest]] = {}
    for each in read:
        by_run.setdefault(each.name.run, []).append(each)
    counting, replaced, tied = [], [], {}
    for run in sorted(by_run):
        newest = max(each.name.generation for each in by_run[run])
        same = [each for each in by_run[run] if each.name.generation == newest]
        counting.append(_common(same))
        if len(same) > 1:
            tied[run] = tuple(each.name for each in same)
        replaced += [each.name for each in by_run[run] if each.name.generation < newest]
    entries: dict[str, RemoteEntry] = {}
    for each in counting:
        _check_same(each, counting[0], place)
        entries.update((entry.file.path, entry) for entry in each.entries)
    return Catalogue(tuple(counting), tuple(replaced), tied, entries)


def _common(same: list[Manifest]) -> Manifest:
    """What two prunes at once have both left."""
    first, *others = sorted(same, key=lambda each: each.name)
    left = set(first.contents.items()).intersection(*(each.contents.items() for each in others))
    if not others:
        return first
    kept = tuple(each for each in first.entries if (each.file.path, each.file.sha256) in left)
    return Manifest(first.name, first.origin, kept, first.warm_run)


def _check_same(manifest: Manifest, first: Manifest, place: Place) -> None:
    mine, theirs = manifest.origin, first.origin
    if (mine.target, mine.target_options) != (theirs.target, theirs.target_options):
        raise RefusedError(
            f"{place.url}: pushes of different stores: target `{theirs.target}` and"
            f" `{mine.target}`, or other options",
            hint="push stores of one kind to one place",
        )
