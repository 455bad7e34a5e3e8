"""A pass on a worker of a cluster, and what its driver is told of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vcache_cli.errors import VcacheError
from vcache_cli.outcome import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vcache_cli.items import WarmItem
    from vcache_cli.outcome import Outcome
    from vcache_cli.pipeline import WarmPass
    from vcache_cli.remote import ObjectWriter, RemoteEntry
    from vcache_cli.store import DiskStore

__all__ = ["BucketFlow", "ShardFlow", "Told", "on_this_node"]


class Told(NamedTuple):
    """What a worker says of an item."""

    outcome: Outcome
    uploaded: tuple[RemoteEntry, ...] = ()
    """Entries, of any items, that the worker has written to a bucket since it last said so."""


@dataclass(slots=True)
class ShardFlow:
    """A pass on a worker: one thread, but for `stop`."""

    warm: WarmPass
    store: DiskStore
    since_ns: int
    _met: list[str] = field(default_factory=list)

    def run(self, values: Iterable[WarmItem]) -> Iterator[Told]:
        """The Outcome of each item; what another worker made in this run is a copy of that.

        Raises:
            VcacheError: what ended the pass early.
        """
        for outcome in self.warm.run(values):
            present = outcome.status is Status.PRESENT
            yield Told(self._settled(outcome) if present else outcome)
        if self.warm.error:
            raise self.warm.error
        self.touch_all()

    def _settled(self, outcome: Outcome) -> Outcome:
        facts = [self.store.stat(key) for key in outcome.entry_keys]
        self._met += outcome.entry_keys
        if any(each is not None and each.st_mtime_ns >= self.since_ns for each in facts):
            return outcome._replace(status=Status.COPY)
        return outcome

    def touch_all(self) -> None:
        """Mark what was found as used."""
        keys, self._met = self._met, []
        for key in keys:
            self.store.touch(key)

    def stop(self) -> None:
        """See `Flow`."""
        self.warm.stop()


@dataclass(slots=True)
class BucketFlow:
    """As `ShardFlow`, of a worker that writes to a bucket."""

    warm: WarmPass
    writer: ObjectWriter
    uploaded: list[RemoteEntry]
    """Filled by the writer, from any thread."""

    def run(self, values: Iterable[WarmItem]) -> Iterator[Told]:
        """The Outcome of each item, with what was written meanwhile.

        Raises:
            VcacheError: what ended the pass early, with the node that it happened on.
        """
        for outcome in self.warm.run(values):
            taken = tuple(self.uploaded)
            del self.uploaded[: len(taken)]
            yield Told(outcome, taken)
        if error := self.writer.error or self.warm.error:
            raise on_this_node(error)

    def stop(self) -> None:
        """See `Flow`."""
        self.warm.stop()


def on_this_node(error: VcacheError) -> VcacheError:
    """`error` with the name of this machine."""
    return type(error)(f"node {os.uname().nodename}: {error.message}", hint=error.hint)
