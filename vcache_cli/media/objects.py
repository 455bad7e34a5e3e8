"""Objects of buckets as items: found page by page, never all at once, read in bounded ranges.

The rules are those of folders: hidden names, what the user excluded, and stores among the pictures
are left out, and a name stands for itself and what lies below it, not for names that begin so.
"""

from __future__ import annotations

import hashlib
from fnmatch import fnmatchcase
from itertools import chain
from typing import TYPE_CHECKING, Final

from vcache_cli.buckets import Place, as_run_error, is_url, open_bucket, parse_place
from vcache_cli.errors import NothingToDoError, ReadError, UsageError
from vcache_cli.items import FileStat, MediaItem, Trouble
from vcache_cli.media.globs import has_magic
from vcache_cli.media.read import HEAD_BYTES, check_size
from vcache_cli.media.walk import CACHE_SIGNATURE, CACHE_TAG, is_excluded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vcache_cli.buckets import Bucket, Found

__all__ = ["check_url", "named_objects", "plain_name", "read_object"]

_AT_ONCE_BYTES: Final = 1024 * 1024
"""An object up to this size is had in one request; of a larger one the head comes first."""
_ENDS_IT: Final = frozenset({"permission", "no_credentials", "not_found"})
_CLOSED: Final = Trouble(
    "remote_container",
    "an archive, table or log in a bucket, which is not opened there",
    hint="copy it to this machine, and name the file",
)
_CLOSED_FOUND: Final = Trouble(_CLOSED.kind, _CLOSED.message, _CLOSED.hint, skipped=True)


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
    url: str, *, exclude: Sequence[str], is_container: Callable[..., bool]
) -> Iterator[MediaItem]:
    """What a URL names: an object, what lies below a folder, or what a glob matches.

    Args:
        url: of a bucket.
        exclude: as of a walk.
        is_container: true for names of files that hold pictures, and are not opened here; also
            takes whether the item is `explicit`.

    Raises:
        UsageError: no such bucket, or a URL that cannot be used.
        NothingToDoError: a glob without a match.
        AccessError: it may not be listed.
        ModelError: the extra `remote` is not installed.
    """
    place = parse_place(url)
    bucket = open_bucket(place)
    seeker = _Seeker(bucket, place, exclude)
    try:
        for item in seeker.items():
            if is_container(item.path, explicit=item.explicit):
                told = _CLOSED if item.explicit else _CLOSED_FOUND
                item = MediaItem(item.path, item.stat, explicit=item.explicit, trouble=told)  # noqa: PLW2901  the same item
            yield item
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
    if item.stat is None:
        facts = bucket.facts(place.path)
        if facts is None or facts.is_folder:
            raise ReadError(
                f"no such object: bucket `{place.root}`, path `{place.path}`",
                kind="not_found",
                hint="correct the name, or leave it out",
            )
        size_bytes = facts.size_bytes
    else:
        size_bytes = item.stat.size_bytes
    return _bounded(bucket, place, size_bytes, limit_of)


def _bounded(
    bucket: Bucket, place: Place, size_bytes: int, limit_of: Callable[[bytes], int | None]
) -> bytes | None:
    if size_bytes == 0:
        return None if limit_of(b"") is None else b""
    at_once = size_bytes <= _AT_ONCE_BYTES
    # One byte more than was announced, so that growth shows.
    data = bucket.read(place.path, size_bytes + 1 if at_once else HEAD_BYTES)
    max_bytes = limit_of(data[:HEAD_BYTES])
    if max_bytes is None:
        return None
    check_size(size_bytes, max_bytes)
    if not at_once:
        data = bucket.read(place.path, size_bytes + 1)
    if len(data) != size_bytes:
        raise ReadError(
            f"{size_bytes} bytes were listed, and another number was read",
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
        stat = _stat(found)
        return MediaItem(self._place.at(found.path).url, stat, explicit=explicit)

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


def _stat(found: Found) -> FileStat | None:
    """What tells an unchanged object: its etag, or size and time; None where neither is known."""
    if found.version:
        named = hashlib.sha256(found.version.encode()).digest()
        inode, device = (int.from_bytes(named[at : at + 8], "big") for at in (0, 8))
        return FileStat(found.size_bytes, 0, 0, inode, device)
    if found.mtime_ns:
        return FileStat(found.size_bytes, found.mtime_ns, 0, 0, 0)
    return FileStat(found.size_bytes, _NEVER, 0, 0, 0)


_NEVER: Final = 2**62
"""A time in the future: nothing of such an object is remembered."""


def _untold(place: Place, error: ReadError) -> MediaItem:
    return MediaItem(
        place.url,
        trouble=Trouble(error.item_kind, f"cannot be listed: {error.message}", error.hint),
    )
