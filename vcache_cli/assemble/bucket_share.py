"""What whoever writes to a store in a bucket knows of it: sent along with the work."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vcache_cli.assemble.lookup import NoMemo
from vcache_cli.assemble.warm_pass import Outlet, leave_alone
from vcache_cli.errors import InvalidEntryError, ReadError
from vcache_cli.header import LENGTH_BYTES, header_length, parse_header
from vcache_cli.protocols import LooseKeys
from vcache_cli.remote import Holdings, ObjectWriter, open_remote
from vcache_cli.remote.names import object_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from vcache_cli.assemble.recipes import LoadedRecipe
    from vcache_cli.entry import Entry
    from vcache_cli.items import FileStat
    from vcache_cli.outcome import Failure
    from vcache_cli.pipeline import Ledger
    from vcache_cli.protocols import Layout, Seen
    from vcache_cli.remote import RemoteEntry

__all__ = ["BucketShare", "Unrecorded"]

_HEADER_BYTES: Final = 16 * 1024
"""Read of an object to see its header: nearly all are shorter."""


@dataclass(frozen=True, slots=True)
class BucketShare:
    """A store in a bucket, and what it held when the run began. Picklable."""

    url: str
    holdings: Holdings

    def found(self, layout: Layout) -> Callable[[str], bool]:
        """Whether an entry of a key was there. Picklable."""
        return _Held(self, layout)

    def present(self, loaded: LoadedRecipe) -> Callable[[str], bool]:
        """As `found`, and false of one of another recipe, to be written anew. Picklable."""
        target = loaded.target
        if not isinstance(target, LooseKeys):
            return self.found(target.layout)
        return _Current(self, target.layout, target, loaded.recipe.as_json())

    @contextmanager
    def outlet(
        self, loaded: LoadedRecipe, note: Callable[[RemoteEntry], None], ledger: Ledger
    ) -> Iterator[tuple[Outlet, ObjectWriter]]:
        """Where entries go; what was submitted is finished at the end.

        Args:
            loaded: of the run.
            note: told of each entry whose object is there, from any thread.
            ledger: takes what is learnt.

        Raises:
            ModelError: the extra `remote` is not installed.
        """
        layout = loaded.target.layout
        with ObjectWriter(open_remote(self.url), layout, note) as writer:
            present, found = self.present(loaded), self.found(layout)
            yield Outlet(present, found, leave_alone, writer.submit, ledger), writer


@dataclass(frozen=True, slots=True)
class _Held:
    """Asks nothing of the bucket. Picklable."""

    share: BucketShare
    layout: Layout

    def __call__(self, key: str) -> bool:
        """True where an entry of that key was there when the run began."""
        return self.share.holdings.digest(self.layout.path_of(key)) is not None


@dataclass(frozen=True, slots=True)
class _Current:
    """Reads the header of what is there; see `where_current`. Picklable."""

    share: BucketShare
    layout: Layout
    target: LooseKeys
    recipe: Mapping[str, Any]

    def __call__(self, key: str) -> bool:
        """True for an entry of this recipe, and for one of which nobody knows the recipe."""
        path = self.layout.path_of(key)
        digest = self.share.holdings.digest(path)
        if digest is None:
            return False
        try:
            found = self._recipe(path, object_name(digest))
        except InvalidEntryError:
            return True  # damage is the business of `pull`
        except ReadError:
            return False
        return not found or self.target.is_current(self.recipe, found)

    def _recipe(self, path: str, name: str) -> Mapping[str, Any]:
        remote, limits = open_remote(self.share.url), self.layout.limits
        place = remote.path(name)
        facts = remote.bucket.facts(place)
        size_bytes = facts.size_bytes if facts else 0
        data = remote.bucket.read(place, min(size_bytes, _HEADER_BYTES))
        end = LENGTH_BYTES + header_length(data[:LENGTH_BYTES], size_bytes, limits)
        if end > len(data):
            data += remote.bucket.read(place, end, start=len(data))
        header = parse_header(data[LENGTH_BYTES:end], size_bytes - end, limits)
        return self.layout.unpack(path, header.metadata, {}).recipe


class Unrecorded(NoMemo):
    """The ledger of a worker: the driver remembers."""

    def remember_unchanged(self, path: str, stat: FileStat, seen: Seen) -> None:
        """Nothing."""

    def remember_known(self, source_sha256: str, context: str, key: str) -> None:
        """Nothing."""

    def remember_failure(self, source_sha256: str, context: str, failure: Failure) -> None:
        """Nothing."""

    def add_entry(self, entry: Entry, size_bytes: int) -> None:
        """Nothing."""

    def add_source(self, key: str, path: str) -> None:
        """Nothing."""

    def commit(self) -> None:
        """Nothing."""
