"""The corpus that a command line names: its sources, one part of them, the first of them."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from vcache_cli.errors import UsageError, VcacheError
from vcache_cli.folders import FolderFiles
from vcache_cli.protocols import Trickling, batches_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vcache_cli.items import WarmItem
    from vcache_cli.media import LogRules
    from vcache_cli.protocols import Source

__all__ = ["Corpus", "corpus", "count_ahead"]


@dataclass(slots=True)
class Corpus:
    """A source that counts what it has given."""

    source: Source
    shard: tuple[int, int] | None = None
    """(i, n): the i-th of n parts, counted from 1."""
    limit: int | None = None
    walkable: bool = True
    """False where a list is read from a stream, which can be read only once, or walking costs."""
    found: int = 0
    """Items given so far."""
    ended: bool = False
    """True once the last one was given."""

    @property
    def trickles(self) -> bool:
        """See `protocols.Trickling`."""
        return isinstance(self.source, Trickling) and self.source.trickles

    def items(self) -> Iterator[WarmItem]:
        """The items of the part, counted."""
        return chain.from_iterable(self.batches())

    def batches(self) -> Iterator[Sequence[WarmItem]]:
        """As `items`, many at a time of a folder's files."""
        for batch in self.chosen():
            self.found += len(batch)
            yield batch
        self.ended = True

    def chosen(self) -> Iterator[Sequence[WarmItem]]:
        """The items of the part, not counted."""
        left = sys.maxsize if self.limit is None else self.limit
        batches = self._part()
        while left > 0 and (batch := next(batches, None)) is not None:
            yield batch[:left]
            left -= len(batch)

    def _part(self) -> Iterator[Sequence[WarmItem]]:
        batches = batches_of(self.source)
        if self.shard is None:
            return batches
        part, parts = self.shard
        return filter(None, (_of_part(batch, part - 1, parts) for batch in batches))


def _of_part(batch: Sequence[WarmItem], part: int, parts: int) -> Sequence[WarmItem]:
    from vcache_cli.media import shard_of

    if isinstance(batch, FolderFiles):
        return batch.chosen(shard_of(path, count=parts) == part for path in batch.paths)
    return [item for item in batch if shard_of(item.locator, count=parts) == part]


def corpus(
    specs: Sequence[str] | None,
    *,
    groups: str | None = None,
    null: bool = False,
    exclude: Sequence[str] | None = None,
    shard: tuple[int, int] | None = None,
    limit: int | None = None,
    rules: LogRules | None = None,
) -> Corpus:
    """What the user named.

    Args:
        specs: see `media.sources`.
        groups: a file of requests.
        null: see `media.sources`.
        exclude: see `media.sources`.
        shard: see `Corpus.shard`.
        limit: see `Corpus.limit`.
        rules: what request logs may name.

    Raises:
        UsageError: nothing was named.
    """
    if not specs and not groups:
        raise UsageError("no source was named", hint="name files or folders, or `-` for stdin")
    from vcache_cli.buckets import is_url
    from vcache_cli.media import GroupFile, Joined, is_container, sources

    parts: list[Source] = []
    if specs:
        left_out = tuple(exclude or ())
        parts.append(
            sources(specs, stdin=sys.stdin.buffer, null=null, exclude=left_out, rules=rules)
        )
    if groups:
        parts.append(GroupFile(groups, rules) if rules else GroupFile(groups))
    # A log is read whole to be walked: doing that twice would cost more than a total is worth.
    # So would listing a bucket.
    costly = any(
        spec == "-" or spec.startswith("@") or is_container(spec) or is_url(spec)
        for spec in specs or ()
    )
    return Corpus(Joined(tuple(parts)), shard, limit, walkable=not costly)


def count_ahead(corpus: Corpus, *, walk: bool) -> Callable[[], int | None]:
    """The number of items of `corpus`, once it is known.

    A run walks only as it goes, so with `walk` a thread walks the same names ahead of it, opening
    nothing; it ends with the process. What goes wrong there is left for the run to find.
    """
    counted: list[int] = []

    def walk_ahead() -> None:
        with suppress(VcacheError, OSError):
            counted.append(sum(map(len, corpus.chosen())))

    if walk and corpus.walkable:
        threading.Thread(target=walk_ahead, name="count-ahead", daemon=True).start()

    def total() -> int | None:
        if corpus.ended:
            return corpus.found
        return counted[0] if counted else None

    return total
