"""Objects of buckets as items: found page by page, never all at once, read in bounded ranges.

The rules are those of folders: hidden names, what the user excluded, and stores among the pictures
are left out, and a name stands for itself and what lies below it, not for names that begin so.
"""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import chain
from typing import TYPE_CHECKING, Final

from vcache_cli.buckets import Place, as_run_error, is_url, open_bucket, parse_place, redacted
from vcache_cli.errors import NothingToDoError, ReadError, UsageError
from vcache_cli.items import MediaItem, Trouble
from vcache_cli.media.globs import has_magic
from vcache_cli.media.object_bytes import AT_ONCE_BYTES, fetched, found_stat, object_stat
from vcache_cli.media.read import HEAD_BYTES, check_size
from vcache_cli.media.walk import CACHE_SIGNATURE, CACHE_TAG, is_excluded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vcache_cli.buckets import Bucket, Found
    from vcache_cli.items import FileStat

__all__ = ["check_url", "named_objects", "plain_name", "read_object"]

_MISNAMED: Final = Trouble(
    "odd_name", "its name reads as a URL with a query", hint="rename it: nothing after a `?`"
)
_ENDS_IT: Final = frozenset({"permission", "no_credentials", "not_found"})


def check_url(url: str) -> None:
    """Refuse what cannot be asked for.

    Raises:
        UsageError: a URL that cannot be used.
        ModelError: the extra `remote` is not installed.
    """
    open_bucket(parse_place(url))


def plain_name(name: str) -> str:
    """`name`, or the path that a ``file://`` URL stands for.

    Raises:
        UsageError: a URL that cannot be used.

    >>> plain_name("file:///a/b"), plain_name("a/b")
    ('/a/b', 'a/b')
    """
    if not is_url(name):
        return name
    place = parse_place(name)
    return place.path if place.scheme == "file" else name


def named_objects(
    url: str, *, exclude: Sequence[str], is_log: Callable[[str], bool]
) -> Iterator[MediaItem]:
    """What a URL names: an object, what lies below a folder, or what a glob matches.

    Args:
        url: of a bucket.
        exclude: as of a walk.
        is_log: true for names of request logs: a glob for these means those that it matches.

    Raises:
        UsageError: no such bucket, or a URL that cannot be used.
        NothingToDoError: a glob without a match.
        AccessError: it may not be listed.
        ModelError: the extra `remote` is not installed.
    """
    place = parse_place(url)
    bucket = open_bucket(place)
    logs = is_log(url)
    try:
        for item in _Seeker(bucket, place, exclude).items():
            yield replace(item, explicit=True) if logs and is_log(item.path) else item
    except ReadError as error:
        if error.item_kind in _ENDS_IT:
            raise as_run_error(error, place, missing=UsageError) from error
        yield _untold(place, error)


def read_object(item: MediaItem, limit_of: Callable[[bytes], int | None]) -> bytes | None:
    """As `read.read_if`, of an item whose path is a URL.

    Raises:
        ReadError: it cannot be had.
    """
    place = parse_place(item.path)
    bucket = open_bucket(place)
    stat = item.stat or found_stat(bucket, place)
    return _bounded(bucket, place, stat, limit_of)


def _bounded(
    bucket: Bucket, place: Place, stat: FileStat, limit_of: Callable[[bytes], int | None]
) -> bytes | None:
    if stat.size_bytes == 0:
        return None if limit_of(b"") is None else b""
    at_once = stat.size_bytes <= AT_ONCE_BYTES
    # One byte more than was announced, so that growth shows.
    whole = stat.size_bytes + 1
    data, _ = fetched(bucket, place.path, start=0, end=whole if at_once else HEAD_BYTES, stat=stat)
    max_bytes = limit_of(data[:HEAD_BYTES])
    if max_bytes is None:
        return None
    check_size(stat.size_bytes, max_bytes)
    if not at_once:
        data, _ = fetched(bucket, place.path, start=0, end=whole, stat=stat)
    if len(data) != stat.size_bytes:
        raise ReadError(
            f"{stat.size_bytes} bytes were listed, and another number was read",
            kind="changed",
            hint="run again when it is whole",
        )
    return data


class _Seeker:
    """Finds what a place names. One pass."""

    def __init__(self, bucket: Bucket, place: Place, exclude: Sequence[str]) -> None:
        self._bucket, self._place, self._exclude = bucket, place, exclude

    def items(self) -> Iterator[MediaItem]:
        place = self._place
        if place.is_folder or place.path == place.root:
            yield from self._top()
            return
        facts = self._bucket.facts(place.path)
        if facts is None and has_magic(place.path):
            yield from self._matching()
        elif facts is None:
            # Whether the bucket is missing, too: then nothing that is named can be there.
            next(self._bucket.pages(place.root), None)
            yield MediaItem(place.url, explicit=True)
        elif facts.is_folder:
            yield from self._top()
        else:
            yield self._item(facts, explicit=True)

    def _top(self) -> Iterator[MediaItem]:
        if has_magic(self._place.root):
            raise UsageError(f"`{self._place.url}`: the name of a bucket cannot be a glob")
        yield from self._below(self._place.path, is_top=True)

    def _below(self, top: str, *, is_top: bool = False) -> Iterator[MediaItem]:
        """Items below a folder: its objects, then its folders, as a walk of files gives them."""
        pending = [(top, is_top)]
        while pending:
            folder, named = pending.pop()
            inner: list[str] = []
            try:
                yield from self._files(folder, inner, named=named)
            except ReadError as error:
                if named:
                    raise
                yield _untold(self._place.at(folder), error)
            pending.extend((each, False) for each in reversed(inner))

    def _files(self, folder: str, inner: list[str], *, named: bool) -> Iterator[MediaItem]:
        pages = self._bucket.pages(folder)
        first = next(pages, [])
        if named or not self._is_cache(first):
            yield from self._listed(folder, inner, chain([first], pages))

    def _listed(
        self, folder: str, inner: list[str], pages: Iterable[list[Found]] | None = None
    ) -> Iterator[MediaItem]:
        """Items directly in `folder`; its folders go to `inner`."""
        for found in chain.from_iterable(self._bucket.pages(folder) if pages is None else pages):
            if self._is_left_out(found):
                continue
            if found.is_folder:
                inner.append(found.path)
            else:
                yield self._item(found)

    def _is_left_out(self, found: Found) -> bool:
        name = found.path.rpartition("/")[2]
        if name.startswith("."):
            return True
        return bool(self._exclude) and is_excluded(self._place.at(found.path).url, self._exclude)

    def _is_cache(self, page: list[Found]) -> bool:
        """True for a store: what says so comes before its entries, in the first page."""
        tags = [each for each in page if each.path.endswith(f"/{CACHE_TAG}")]
        if not tags:
            return False
        return self._bucket.read(tags[0].path, len(CACHE_SIGNATURE)) == CACHE_SIGNATURE

    def _item(self, found: Found, *, explicit: bool = False) -> MediaItem:
        url = self._place.at(found.path).url
        try:
            parse_place(url)
        except UsageError:  # such as what a download of a signed URL leaves
            return MediaItem(redacted(url), trouble=_MISNAMED, explicit=explicit)
        return MediaItem(url, object_stat(found), explicit=explicit)

    def _matching(self) -> Iterator[MediaItem]:
        root, *parts = self._place.path.split("/")
        if has_magic(root):
            raise UsageError(f"`{self._place.url}`: the name of a bucket cannot be a glob")
        any_found = False
        for item in self._matches(root, parts):
            any_found = True
            yield item
        if not any_found:
            raise NothingToDoError(f"no object matches `{self._place.url}`")

    def _matches(self, folder: str, parts: Sequence[str]) -> Iterator[MediaItem]:
        """Items below `folder` whose names fit `parts`; a matched folder gives all in it."""
        literal = 0
        while literal < len(parts) - 1 and not has_magic(parts[literal]):
            literal += 1
        folder = "/".join((folder, *parts[:literal]))
        first, rest = parts[literal], parts[literal + 1 :]
        fitting = (rest or ("*",)) if first == "**" else (first, *rest)
        inner: list[str] = []
        for item in self._listed(folder, inner):
            if len(fitting) == 1 and fnmatchcase(_name(item.path), fitting[0]):
                yield item
        for each in inner:
            yield from self._inside(each, first, rest)

    def _inside(self, folder: str, first: str, rest: Sequence[str]) -> Iterator[MediaItem]:
        if first == "**":
            if len(rest) > 1 and fnmatchcase(_name(folder), rest[0]):
                yield from self._matches(folder, rest[1:])  # `**` ends before it
            yield from self._matches(folder, (first, *rest))
        elif not fnmatchcase(_name(folder), first):
            return
        elif rest:
            yield from self._matches(folder, rest)
        else:
            yield from self._below(folder)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _untold(place: Place, error: ReadError) -> MediaItem:
    return MediaItem(
        place.url,
        trouble=Trouble(error.item_kind, f"cannot be listed: {error.message}", error.hint),
    )
