"""Files that hold many pictures: which ones are opened, and what comes out of them.

A name says that a file may be one (``.tar``, ``.zip``, ``.parquet``; ``.jsonl`` where the user
named the file: beside the pictures of a folder lie metadata of that kind), its first bytes say
which: of a million other files none is opened to find out. Archives inside archives stay shut.
What lies in a bucket is treated as what lies in a folder; pieces of it are fetched.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

from vcache_cli.buckets import is_url, open_bucket, parse_place
from vcache_cli.errors import ReadError, UsageError
from vcache_cli.folders import FolderFiles
from vcache_cli.items import FileStat, MediaItem, Part, Trouble
from vcache_cli.media.logs import LogRules, log_items
from vcache_cli.media.object_bytes import found_stat
from vcache_cli.media.parts import Place, is_hidden, opened_whole
from vcache_cli.media.readable import read_most
from vcache_cli.media.tables import cell_parts, looks_like_parquet
from vcache_cli.media.tars import looks_like_tar, tar_parts
from vcache_cli.media.walk import is_excluded
from vcache_cli.media.zips import looks_like_zip, zip_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vcache_cli.items import WarmItem

__all__ = ["Containers", "is_container", "is_log", "reopened"]

_ARCHIVES: Final = (".tar", ".zip", ".parquet")
_LOGS: Final = (".jsonl", ".ndjson")
_PACKED: Final = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".tzst")
_CONTAINERS: Final = (*_ARCHIVES, *_LOGS, *_PACKED)
_HEAD_BYTES: Final = 512
_PACKED_TAR: Final = Trouble(
    "packed_archive",
    "a packed tar, whose members cannot be reached one by one",
    hint="unpack it to a plain .tar: pictures are packed already",
)
_NESTED: Final = Trouble(
    "nested_archive", "an archive inside an archive is not opened", skipped=True
)

Found = Part | tuple[str, Trouble]


def _runs(names: Sequence[str]) -> Iterator[tuple[bool, int]]:
    """How many names after each other are those of containers, and how many are not."""
    together = "/".join(names).lower()
    if not any(end in together for end in _CONTAINERS):  # as good as always, and soon told
        yield False, len(names)
        return
    for is_container, run in groupby(name.lower().endswith(_CONTAINERS) for name in names):
        yield is_container, sum(1 for _ in run)


def is_log(path: str) -> bool:
    """True where the name says that it is a request log."""
    return path.lower().endswith(_LOGS)


def is_container(path: str) -> bool:
    """True where the name says that many pictures may lie in it."""
    return path.lower().endswith((*_ARCHIVES, *_LOGS))


@dataclass(frozen=True, slots=True)
class Containers:
    """Opens what holds pictures."""

    rules: LogRules = field(default_factory=LogRules)
    exclude: Sequence[str] = ()
    """Globs of members that are left out."""

    def opened_all(self, batch: Sequence[MediaItem]) -> Iterator[Sequence[WarmItem]]:
        """What `opened` gives of each; a folder's files that hold no others stay together."""
        if not isinstance(batch, FolderFiles):
            for item in batch:
                yield from zip(self.opened(item))
            return
        begin = 0
        for is_container, run in _runs(batch.names):
            files = batch[begin : begin + run]
            begin += run
            if is_container:
                yield from self.opened_all([*files])
            else:
                yield files

    def opened(self, item: MediaItem) -> Iterable[WarmItem]:
        """What is in `item`, or the item itself where it is no container.

        Damage is an item that only tells of it, after those that were found before it.
        """
        name = item.path.lower()
        if not name.endswith(_CONTAINERS) or item.stat is None:
            return (item,)
        return self._opened(item, name)

    def _opened(self, item: MediaItem, name: str) -> Iterator[WarmItem]:
        try:
            if is_log(name) and item.explicit:
                yield from log_items(item.path, item.stat, self.rules)
            elif name.endswith(_PACKED) and item.explicit:
                yield replace(item, trouble=_PACKED_TAR)
            elif name.endswith(_ARCHIVES):
                yield from self._archive(item)
            else:
                yield item
        except ReadError as error:
            yield replace(item, trouble=Trouble(error.item_kind, error.message, error.hint))

    def _archive(self, item: MediaItem) -> Iterator[WarmItem]:
        with opened_whole(item.path, item.stat) as (source, stat):
            head = read_most(source, 0, _HEAD_BYTES)
            item = replace(item, stat=stat)
            if looks_like_tar(head):
                yield from self._members(item, tar_parts(source))
            elif looks_like_zip(head):
                yield from self._members(item, zip_parts(source))
            elif looks_like_parquet(head):
                cells = cell_parts(item.path, stat, explicit=item.explicit)
                yield from self._members(item, cells)
            else:
                yield item  # whose first bytes are another's: the worker says so

    def _members(self, container: MediaItem, parts: Iterable[Found]) -> Iterator[MediaItem]:
        for found in parts:
            part, trouble = (
                (Place(found[0]), found[1]) if isinstance(found, tuple) else (found, None)
            )
            if is_hidden(part.name) or (self.exclude and is_excluded(part.name, self.exclude)):
                continue
            if part.name.lower().endswith((".tar", ".zip", *_PACKED)):
                trouble = trouble or _NESTED
            inside = part if part.name else None
            yield MediaItem(container.path, container.stat, part=inside, trouble=trouble)


def reopened(place: str) -> MediaItem:
    """The item whose `MediaItem.absolute_path` was `place`; a file of that name comes first.

    A member may also be called as people see it, without where it lies in its container: then
    the first one of that name is meant.
    """
    path = place
    while "::" in path and not os.path.exists(path):
        path = path.rpartition("::")[0]
        whole = _whole(path) if is_container(path) else None
        if whole and (found := _member(whole, place)):
            return found
    return MediaItem(place)


def _whole(path: str) -> MediaItem | None:
    """The container at a path or URL; None where there is none."""
    if not is_url(path):
        is_file = os.path.isfile(path)
        return MediaItem(path, FileStat.of(os.stat(path)), explicit=True) if is_file else None
    try:
        where = parse_place(path)
        return MediaItem(where.url, found_stat(open_bucket(where), where), explicit=True)
    except (ReadError, UsageError):  # who reads the item says why
        return None


def _member(container: MediaItem, place: str) -> MediaItem | None:
    named = None
    for each in Containers().opened(container):
        if not isinstance(each, MediaItem) or each.part is None:
            continue
        if each.absolute_path == place:
            return each
        if named is None and f"{container.absolute_path}::{each.part.name}" == place:
            named = each
    return named
