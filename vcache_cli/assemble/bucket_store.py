"""A store in a bucket: what is there, and what is kept of it on the machine that fills it."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vcache_cli.assemble.bucket_share import BucketShare
from vcache_cli.assemble.lookup import NOTHING_KNOWN, open_known
from vcache_cli.assemble.passes import make_triage
from vcache_cli.assemble.remote_stores import check_places
from vcache_cli.assemble.stores import create_root
from vcache_cli.assemble.targets import store_options
from vcache_cli.config import memo_folder
from vcache_cli.digest import digest_json
from vcache_cli.errors import AccessError, NotAStoreError, StoreFullError, UsageError
from vcache_cli.items import display_path
from vcache_cli.outcome import PresentFiles
from vcache_cli.pipeline import MOST_AHEAD
from vcache_cli.pipeline.ledger import Notebook
from vcache_cli.pipeline.lookahead import Lookahead
from vcache_cli.remote import Holdings, Record, open_remote
from vcache_cli.remote.push import check_same
from vcache_cli.store import vcache_dir
from vcache_cli.store.archive_parts import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vcache_cli.assemble.lookup import Known
    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.assemble.recipes import LoadedRecipe
    from vcache_cli.items import WarmItem
    from vcache_cli.outcome import Outcome
    from vcache_cli.pipeline import Ledger
    from vcache_cli.protocols import Layout
    from vcache_cli.remote import Catalogue, RemoteStore
    from vcache_cli.store import StoreRoot

__all__ = [
    "BucketDesk",
    "BucketStore",
    "SeenBucket",
    "known_in_bucket",
    "open_bucket_store",
    "refuse_limits",
]


def refuse_limits(options: WarmOptions) -> None:
    """Refuse what a bucket does not have.

    Raises:
        UsageError: a limit of its size, or of the disk's free space.
    """
    asked = {
        "--max-size": options.max_size_bytes is not None,
        "--min-free": options.min_free_bytes is not None,
        "--on-full prune": options.on_full == "prune",
    }
    for name, is_set in asked.items():
        if is_set:
            raise UsageError(
                f"`{name}`: a bucket has no such limit",
                hint="leave it away; `vcache prune URL` makes room there",
            )


@dataclass(frozen=True, slots=True, eq=False)
class SeenBucket:
    """A store in a bucket, as it was when it was looked at."""

    remote: RemoteStore
    origin: Origin
    catalogue: Catalogue
    share: BucketShare

    @property
    def folder(self) -> Path:
        """Of this machine, for the memos of runs into the store; it need not be there.

        One for each store: a bucket that was emptied may become another target's.
        """
        options = dict(self.origin.target_options)
        named = {"url": self.share.url, "target": self.origin.target, "options": options}
        return memo_folder() / "buckets" / digest_json(named)


@dataclass(frozen=True, slots=True, eq=False)
class BucketStore:
    """A store in a bucket that a run fills."""

    seen: SeenBucket
    state: StoreRoot
    """A folder of this machine with the memos and the files of runs, and no entry. Disposable."""
    layout: Layout

    @property
    def share(self) -> BucketShare:
        """What was there, and where."""
        return self.seen.share

    def record(self, warm_run: str) -> Record:
        """What takes down the entries of a run."""
        seen = self.seen
        return Record(seen.remote, seen.origin, seen.catalogue, warm_run=warm_run)


def open_bucket_store(url: str, loaded: LoadedRecipe, options: WarmOptions) -> BucketStore:
    """The store at `url`, to be filled; there need not be one yet.

    Raises:
        UsageError: a URL that cannot be used, or limits that a bucket does not have.
        ModelError: the extra `remote` is not installed.
        RefusedError: a store of another kind is there, or one that cannot be trusted.
        NotAStoreError, FormatTooNewError: the bucket is missing, or cannot be read.
        AccessError, StoreFullError: the bucket, or the folder of memos, cannot be used.
    """
    seen = _look_at(url, loaded, options)
    common = dict(seen.origin.target_options)
    with _explained():
        state = create_root(seen.folder, target=options.target, options=common)
    return BucketStore(seen, state, loaded.target.layout)


@contextmanager
def known_in_bucket(url: str, loaded: LoadedRecipe, options: WarmOptions) -> Iterator[Known]:
    """What the store at `url` holds, and what runs of this machine into it learnt.

    Raises:
        UsageError, ModelError, RefusedError, AccessError, NotAStoreError, FormatTooNewError: see
            `open_bucket_store`.
    """
    seen = _look_at(url, loaded, options)
    with ExitStack() as held:
        memo, _ = NOTHING_KNOWN
        with suppress(NotAStoreError):  # no run into it was of this machine
            memo, _ = held.enter_context(open_known(seen.folder))
        yield memo, seen.share.present(loaded)


def _look_at(url: str, loaded: LoadedRecipe, options: WarmOptions) -> SeenBucket:
    refuse_limits(options)
    remote = open_remote(url)
    origin = Origin(loaded.target.name, store_options(loaded.target, loaded.recipe))
    if remote.place.scheme == "file" and vcache_dir(Path(remote.place.path)).is_dir():
        raise UsageError(
            f"`{remote.place.url}` is a store in a folder, not one in a bucket",
            hint=f"name it as such: --store {display_path(remote.place.path)}",
        )
    catalogue = remote.catalogue(must_exist=False)
    check_same(origin, catalogue.origin, remote)
    check_places(catalogue, loaded.target.layout)
    there = remote.objects()
    whole = (
        each
        for each in catalogue.entries.values()
        if (found := there.get(each.file.sha256)) and found.size_bytes == each.file.size_bytes
    )
    return SeenBucket(remote, origin, catalogue, BucketShare(remote.place.url, Holdings.of(whole)))


@contextmanager
def _explained() -> Iterator[None]:
    """Failures of the folder that nobody has named, with what decides where it is."""
    try:
        yield
    except (AccessError, NotAStoreError, StoreFullError) as error:
        kind = StoreFullError if isinstance(error, StoreFullError) else AccessError
        raise kind(
            f"memos of the bucket: {error.message}",
            hint="set XDG_CACHE_HOME to a folder that can be written; the bucket is not at fault",
        ) from error


class BucketDesk:
    """The driver's side of a run on other machines, which have no memos.

    Args:
        loaded: of the run.
        ledger: the driver's memos.
        share: what is there.
        retry_errors: see `Triage`.
    """

    def __init__(
        self, loaded: LoadedRecipe, ledger: Ledger, share: BucketShare, *, retry_errors: bool
    ) -> None:
        found = share.found(loaded.target.layout)
        triage = make_triage(loaded, ledger, found, retry_errors=retry_errors)
        by_digest = loaded.target.key_from == "digest"
        self._notebook = Notebook(ledger, triage.make_context, keys_by_digest=by_digest)
        self._lookahead = Lookahead(triage, most=MOST_AHEAD)

    def over(self, items: Iterable[WarmItem]) -> Iterator[WarmItem | Outcome]:
        """Items in order; the Outcome of each whose files need not be opened."""
        for chunk in self._lookahead.over(zip(items)):
            if isinstance(chunk, PresentFiles):
                yield from chunk
                continue
            for item, early in chunk:
                yield early or item

    def note(self, outcome: Outcome) -> None:
        """Remember what a worker learnt."""
        self._notebook.write(outcome)
