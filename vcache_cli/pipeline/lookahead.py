"""Items looked up many at a time: what did not change costs no question of its own."""

from __future__ import annotations

import os
import time
from itertools import compress
from typing import TYPE_CHECKING, Final

from vcache_cli.buckets import is_url
from vcache_cli.errors import VcacheError
from vcache_cli.items import Kind, MediaItem
from vcache_cli.outcome import Outcome, Status
from vcache_cli.pipeline.folder_lookup import FolderLookup
from vcache_cli.protocols import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vcache_cli.items import FileStat, WarmItem
    from vcache_cli.outcome import PresentFiles
    from vcache_cli.pipeline.triage import Triage
    from vcache_cli.protocols import Recall

    LookedUp = list[tuple[WarmItem, Outcome | None]]

__all__ = ["MOST_AHEAD", "Lookahead"]

MOST_AHEAD: Final = 2048
"""Items looked up at a time."""

_PATIENCE_SECONDS: Final = 0.1


class Lookahead:
    """Asks the memos about many items at once; whatever is not plain goes the way of one item.

    Args:
        triage: decides on one item.
        most: items looked up at a time; 1 where the next one may be long in coming.
    """

    def __init__(self, triage: Triage, *, most: int = MOST_AHEAD) -> None:
        self._triage = triage
        self._keys_by_digest = triage.target.key_from == "digest"
        self._folders = FolderLookup.of(triage)
        self._most = most
        self._size = 1
        self.discover_seconds = 0.0
        """Time spent waiting for items."""
        self._error: VcacheError | None = None

    def over(self, batches: Iterable[Sequence[WarmItem]]) -> Iterator[PresentFiles | LookedUp]:
        """The items of `batches`, each with its Outcome where none of its files need be opened.

        The first one comes alone. Lists grow while looking ahead pays, and shrink where items
        have to be worked on: these are found no faster than that is done. Of the files of a
        folder, those that are there come before the others.
        """
        iterator = iter(batches)
        while chunk := self._next_chunk(iterator):
            present, rest = self._folders.split(chunk)
            yield from present
            if not rest:
                self._resize(sum(map(len, present)))
            yield from self._one_by_one(rest)

    def _one_by_one(self, items: Sequence[WarmItem]) -> Iterator[LookedUp]:
        begin = 0
        while part := items[begin : begin + self._size]:
            found = list(zip(part, self(part), strict=True))
            yield found
            begin += len(part)
            self._resize(sum(outcome is not None for _, outcome in found))

    def _resize(self, early: int) -> None:
        self._size = min(self._most, 1 + early * 3 // 2)

    def _next_chunk(self, batches: Iterator[Sequence[WarmItem]]) -> list[Sequence[WarmItem]]:
        """The next items, as many as are to be looked up; fewer where they are slow to come.

        Raises:
            VcacheError: what the items ended with, once all before it were given.
        """
        if self._error:
            raise self._error
        begun, count = time.perf_counter(), 0
        chunk: list[Sequence[WarmItem]] = []
        try:
            for batch in batches:
                chunk.append(batch)
                count += len(batch)
                if count >= self._size or time.perf_counter() - begun > _PATIENCE_SECONDS:
                    break
        except VcacheError as error:
            if not chunk:
                raise
            self._error = error
        self.discover_seconds += time.perf_counter() - begun
        return chunk

    def __call__(self, items: Sequence[WarmItem]) -> list[Outcome | None]:
        """What `Triage` says of each item."""
        files = _plain_files(items)
        context = None if self._keys_by_digest else self._triage.context
        recalled = iter(self._triage.memo.recall([file for file in files if file], context))
        recalls = [next(recalled) if file else None for file in files]
        keys = [self._key(recall) if recall else None for recall in recalls]
        known = [key for key in keys if key is not None]
        there = {*compress(known, self._triage.are_there(known))}
        return [
            Outcome(item, Status.PRESENT, key, recall.seen.source_sha256, Kind.IMAGE)
            if recall and key in there
            # What no memo knows is new, unless it is made of files, or none.
            else (self._triage(item) if recall or not file else None)
            for item, file, recall, key in zip(items, files, recalls, keys, strict=True)
        ]

    def _key(self, recall: Recall) -> str | None:
        """The key of a picture; None where only `Triage` can tell."""
        (digest, kind), key = recall
        if kind is not Kind.IMAGE or not digest:
            return None
        if self._keys_by_digest:
            return self._triage.target.key(self._triage.recipe, Evidence(digest))
        return key


def _plain_files(items: Sequence[WarmItem]) -> list[tuple[str, FileStat] | None]:
    """Absolute path and stat of items that are files, or parts of one; None of any other."""
    folders: dict[str, str] = {}
    return [
        (_absolute(item, folders), item.stat)
        if isinstance(item, MediaItem) and item.stat and not item.trouble
        else None
        for item in items
    ]


def _absolute(item: MediaItem, folders: dict[str, str]) -> str:
    """`MediaItem.absolute_path`; `folders` has what that is of the folders met before."""
    folder, _, name = item.path.rpartition("/")
    if item.part or folder[-1:] in {"", "/"} or name in {"", ".", ".."}:
        return item.absolute_path  # what has no plain name of its own
    absolute = folders.get(folder)
    if absolute is None:
        if is_url(item.path):
            return item.absolute_path
        absolute = folders[folder] = os.path.join(os.path.abspath(folder), "")
    return absolute + name
