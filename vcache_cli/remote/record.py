"""What a warm puts into a bucket, and the manifests that say so."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from vcache_cli.errors import PartialFailureError, ReadError, VcacheError
from vcache_cli.remote.manifest import Manifest
from vcache_cli.remote.names import TAG_NAME, ManifestName
from vcache_cli.remote.push import ENDS_IT, TAG
from vcache_cli.wording import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vcache_cli.remote.catalogue import Catalogue, RemoteStore
    from vcache_cli.remote.entries import RemoteEntry
    from vcache_cli.store.archive_parts import Origin

__all__ = ["Record"]

PART_SECONDS: Final = 30.0
"""Objects that no manifest names for longer are lost with the driver that heard of them."""
PART_ENTRIES: Final = 10_000
_MOST_FAILURES: Final = 3
"""Of parts in a row, half a minute apart, where another try may help."""
MOST_ENTRIES: Final = 1_000_000
"""Of one manifest: a reader refuses those of more than 1 GiB."""


class Record:
    """The entries of a run: those that it has put there, and those that it found there.

    A manifest of what is new is written every half a minute, and one of the whole run at its
    end, in the place of those. `add` from any thread, all else from one.

    Args:
        remote: where they lie.
        origin: what kind of store that is.
        before: what was there when the run began.
        warm_run: the run, as it is named to the user.
        clock: seconds.
    """

    def __init__(
        self,
        remote: RemoteStore,
        origin: Origin,
        before: Catalogue,
        *,
        warm_run: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._remote, self._origin, self._before = remote, origin, before
        self._warm_run, self._clock = warm_run, clock
        self._lock = threading.Lock()
        self._new: dict[str, RemoteEntry] = {}
        self._since = clock()
        self._stored: dict[str, RemoteEntry] = {}
        """Those that a manifest of a part names."""
        self._found: dict[str, RemoteEntry] = {}
        self._parts: list[ManifestName] = []
        self._failed_in_a_row = 0
        self._is_tagged = False
        self.ended = False
        """True once all is said."""

    @property
    def untold(self) -> int:
        """Entries whose objects are there, and that no manifest names."""
        return 0 if self.ended else len(self._new)

    def add(self, entries: Iterable[RemoteEntry]) -> None:
        """Objects of these are there now."""
        with self._lock:
            if not self._new:
                self._since = self._clock()
            self._new.update((each.file.path, each) for each in entries)

    def meet(self, path: str) -> None:
        """The run found the entry at `path`."""
        if entry := self._before.entries.get(path):
            self._found[path] = entry

    def tell(self) -> None:
        """Write a manifest of what is new, where it is time; later, where that may help.

        What keeps a walk away comes with the first: one may be on its way there.

        Raises:
            VcacheError: it cannot be written.
        """
        waited = self._clock() - self._since
        many = len(self._new) >= PART_ENTRIES * (1 + self._failed_in_a_row)
        is_time = waited >= PART_SECONDS or many
        is_first = not self._is_tagged and not self._failed_in_a_row
        if not self._new or not (is_time or is_first):
            return
        try:
            self._tag()
            if is_time:
                self._tell_part()
        except ReadError as error:
            self._failed_in_a_row += 1
            self._since = self._clock()
            if error.item_kind in ENDS_IT or self._failed_in_a_row >= _MOST_FAILURES:
                raise self._remote.failed(error) from error
            return
        self._failed_in_a_row = 0

    def finish(self) -> None:
        """Say what belongs together; nothing where all of that was said before.

        Raises:
            VcacheError: it cannot be written.
            PartialFailureError: a prune has removed what the run relied on.
        """
        whole = self._found | self._stored | self._new
        contents = {path: each.file.sha256 for path, each in whole.items()}
        if not whole or (not self._stored and not self._new and self._before.has_run(contents)):
            self.ended = True
            return
        try:
            self._tell_all(whole)
        except ReadError as error:
            raise self._remote.failed(error) from error
        self.ended = True
        self._look_again(whole)

    def _tell_all(self, whole: dict[str, RemoteEntry]) -> None:
        if len(whole) > MOST_ENTRIES:
            self._tell_large()
            return
        self._write_manifest(whole)
        self._remove_parts()

    def _tell_large(self) -> None:
        """One manifest would be too long: those of the parts stay."""
        if self._new:
            self._tell_part()
        found = [each for path, each in self._found.items() if path not in self._stored]
        for start in range(0, len(found), MOST_ENTRIES):
            part = found[start : start + MOST_ENTRIES]
            self._write_manifest({each.file.path: each for each in part})

    def _tell_part(self) -> None:
        with self._lock:
            part = dict(self._new)
        self._parts.append(self._write_manifest(part))
        self._stored |= part
        with self._lock:
            self._new = {k: v for k, v in self._new.items() if part.get(k) is not v}
            self._since = self._clock()

    def _write_manifest(self, entries: dict[str, RemoteEntry]) -> ManifestName:
        name = ManifestName.new()
        ordered = tuple(entries[path] for path in sorted(entries))
        manifest = Manifest(name, self._origin, ordered, self._warm_run)
        self._tag()
        self._remote.bucket.write(self._remote.path(name.name), manifest.encoded())
        return name

    def _tag(self) -> None:
        if not self._is_tagged:
            self._remote.bucket.write(self._remote.path(TAG_NAME), TAG)
            self._is_tagged = True

    def _remove_parts(self) -> None:
        """Best effort: who may not remove leaves manifests that say the same once more."""
        for each in self._parts:
            with suppress(ReadError):
                self._remote.bucket.remove(self._remote.path(each.name))

    def _look_again(self, whole: dict[str, RemoteEntry]) -> None:
        """A prune may have removed what was found, or what a part named, while the run went on."""
        try:
            there = self._remote.objects()
        except VcacheError:
            return  # who may write, but not list: `pull` and `stats --scan` tell as well
        gone = sum(each.file.sha256 not in there for each in whole.values())
        if gone:
            raise PartialFailureError(
                f"{count(gone, 'entry', 'entries')} that the run found or stored were removed by a"
                " prune meanwhile",
                hint="run it again",
            )
