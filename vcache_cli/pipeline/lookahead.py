"""Items looked up many at a time: what did not change costs no question of its own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from vcache_cli.errors import VcacheError
from vcache_cli.items import Kind, MediaItem
from vcache_cli.outcome import Outcome, Status
from vcache_cli.protocols import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vcache_cli.items import FileStat, WarmItem
    from vcache_cli.pipeline.triage import Triage
    from vcache_cli.protocols import Recall

__all__ = ["MOST_AHEAD", "Lookahead"]

MOST_AHEAD: Final = 512
"""Items looked up at a time."""

_PATIENCE_SECONDS: Final = 0.02


class Lookahead:
    """Asks the memos about many items at once; whatever is not plain goes the way of one item.

    Args:
        triage: decides on one item.
        most: items looked up at a time; 1 where the next one may be long in coming.
    """

    def __init__(self, triage: Triage, *, most: int = MOST_AHEAD) -> None:
        self._triage = triage
        self._keys_by_digest = triage.target.key_from == "digest"
        self._most = most
        self.discover_seconds = 0.0
        """Time spent waiting for items."""
        self._error: VcacheError | None = None

    def over(self, items: Iterable[WarmItem]) -> Iterator[list[tuple[WarmItem, Outcome | None]]]:
        """`items`, each with its Outcome where none of its files need be opened.

        The first one comes alone. Lists grow while looking ahead pays, and shrink where items
        have to be worked on: these are found no faster than that is done.
        """
        iterator, size = iter(items), 1
        while chunk := self._next_chunk(iterator, size):
            found = list(zip(chunk, self(chunk), strict=True))
            yield found
            early = sum(outcome is not None for _, outcome in found)
            size = min(self._most, 1 + early * 3 // 2)

    def _next_chunk(self, items: Iterator[WarmItem], size: int) -> list[WarmItem]:
        """The next `size` items; fewer where they are slow to come, none at the end.

        Raises:
            VcacheError: what the items ended with, once all before it were given.
        """
        if self._error:
            raise self._error
        begun = time.perf_counter()
        chunk: list[WarmItem] = []
        try:
            for item in items:
                chunk.append(item)
                if len(chunk) >= size or time.perf_counter() - begun > _PATIENCE_SECONDS:
                    break
        except VcacheError as error:
            if not chunk:
                raise
            self._error = error
        self.discover_seconds += time.perf_counter() - begun
        return chunk

    def __call__(self, items: Sequence[WarmItem]) -> list[Outcome | None]:
        """What `Triage` says of each item."""
        files = [_plain_file(item) for item in items]
        asked = [file for file in files if file]
        context = None if self._keys_by_digest else self._triage.context
        recalled = iter(self._triage.memo.recall(asked, context))
        return [
            self._early(item, next(recalled)) if file else self._triage(item)
            for item, file in zip(items, files, strict=True)
        ]

    def _early(self, item: WarmItem, recall: Recall | None) -> Outcome | None:
        """The Outcome of a picture that is there; of any other item, what `Triage` says."""
        if recall is None:
            return None
        (digest, kind), key = recall
        if kind is not Kind.IMAGE or not digest:
            return self._triage(item)
        if self._keys_by_digest:
            key = self._triage.target.key(self._triage.recipe, Evidence(digest))
        if key is None or not self._triage.present(key):
            return self._triage(item)
        return Outcome(item, Status.PRESENT, key, digest, kind)


def _plain_file(item: WarmItem) -> tuple[str, FileStat] | None:
    """Path and stat of an item that is a file, or a part of one; None of any other."""
    if isinstance(item, MediaItem) and item.stat and not item.trouble:
        return item.absolute_path, item.stat
    return None
