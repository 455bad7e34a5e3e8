"""What the user named, to items: files, folders, globs, lists; streamed, in a fixed order.

Left out without an item: hidden files and folders, links to folders, and folders below the named
one that carry a valid ``CACHEDIR.TAG`` (a store among the pictures). Whatever else is found
becomes an item, also what cannot be read: the worker says why. Archives, tables and request logs
give what they hold; see `containers`.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from vcache_cli.buckets import is_url
from vcache_cli.errors import NothingToDoError, UsageError
from vcache_cli.folders import FolderFiles
from vcache_cli.items import FileStat, MediaItem, display_path
from vcache_cli.media.containers import Containers, is_log
from vcache_cli.media.globs import has_magic, matches
from vcache_cli.media.lists import STDIN, list_lines, split_lines
from vcache_cli.media.logs import LogRules
from vcache_cli.media.objects import check_url, named_objects, plain_name
from vcache_cli.media.walk import is_excluded, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import BinaryIO

    from vcache_cli.items import WarmItem

__all__ = ["Sources", "shard_of", "sources"]


def sources(
    specs: Sequence[str],
    *,
    stdin: BinaryIO | None = None,
    null: bool = False,
    exclude: Sequence[str] = (),
    rules: LogRules | None = None,
) -> Sources:
    """The corpus that the user named.

    Args:
        specs: paths of files and folders, globs (``**`` too; only where no such path exists),
            ``@FILE`` (a list of paths; a file whose own name starts with ``@`` is itself),
            ``-`` (a list on `stdin`). Each may be a URL of a bucket, or of objects in it; so may
            what a list names.
        stdin: where ``-`` reads from.
        null: lists are separated by NUL instead of newlines.
        exclude: globs of what a walk leaves out: by name, or by whole path where they hold ``/``.
        rules: what request logs may name; nothing but what they hold, by default.
    """
    named = tuple(map(plain_name, specs))
    return Sources(named, stdin=stdin, null=null, exclude=tuple(exclude), rules=rules or LogRules())


@dataclass(frozen=True, slots=True)
class Sources:
    """A corpus by what the user named. See `sources`."""

    specs: tuple[str, ...]
    stdin: BinaryIO | None = None
    null: bool = False
    exclude: tuple[str, ...] = ()
    rules: LogRules = field(default_factory=LogRules)

    @property
    def trickles(self) -> bool:
        """True where a list is read from a stream, which may be written as it is read."""
        return any(_kind(spec) == "stdin" for spec in self.specs)

    def items(self) -> Iterator[WarmItem]:
        """Each item once per path; files of a folder by name, then its folders.

        Raises:
            NothingToDoError: a glob without a match (before the first item), or no item at all.
            UsageError: an empty name, or a list that cannot be read (before the first item); no
                such bucket.
            AccessError: a bucket that may not be listed.
            ModelError: a bucket, and the extra `remote` is not installed.
        """
        return chain.from_iterable(self.batches())

    def batches(self) -> Iterator[Sequence[WarmItem]]:
        """As `items`, many at a time of a folder's files."""
        for spec in self.specs:
            self._check(spec)
        files = (batch for spec in self.specs for batch in self._expand(spec))
        found = False
        containers = Containers(self.rules, self.exclude)
        for batch in _once(files) if self._may_overlap() else files:
            for opened in filter(None, containers.opened_all(batch)):
                found = True
                yield opened
        if not found:
            named = ", ".join(f"`{display_path(spec)}`" for spec in self.specs) or "no source"
            raise NothingToDoError(
                f"no file found in {named}",
                hint="hidden files and links to folders are left out; name them to include them",
            )

    def _check(self, spec: str) -> None:
        if not spec:
            raise UsageError("an empty source", hint="name a file or a folder; `.` is this folder")
        if is_url(spec):
            check_url(spec)
            return
        kind = _kind(spec)
        if kind == "glob" and next(matches(spec), None) is None:
            raise NothingToDoError(f"no file matches `{display_path(spec)}`")
        if kind == "list" and not os.path.exists(spec[1:]):
            raise UsageError(f"no list file `{display_path(spec[1:])}`")
        if kind == "stdin" and self.stdin is None:
            raise UsageError("`-` reads a list of paths from standard input, which is not there")

    def _expand(self, spec: str) -> Iterator[Sequence[MediaItem]]:
        kind = _kind(spec)
        if kind == "glob":
            # Below `**` the files of a matched folder match themselves.
            return self._named(
                matches(spec), walks="**" not in spec, explicit=False, logs=is_log(spec)
            )
        if kind == "list":
            return self._named(map(plain_name, list_lines(spec[1:], null=self.null)))
        if kind == "stdin":
            lines = split_lines(self.stdin, null=self.null) if self.stdin else iter(())
            return self._named(map(plain_name, lines))
        return self._named([spec])

    def _named(
        self,
        paths: Iterable[str],
        *,
        walks: bool = True,
        explicit: bool = True,
        logs: bool = False,
    ) -> Iterator[Sequence[MediaItem]]:
        """Files of the paths; `logs`: a request log among them is meant, although it matched."""
        for path in paths:
            if is_url(path):
                yield from zip(named_objects(path, exclude=self.exclude, is_log=is_log))
                continue
            status = _status(path)
            if status is not None and stat.S_ISDIR(status.st_mode):
                if walks:
                    yield from walk(path, exclude=self.exclude)
            elif explicit or not is_excluded(path, self.exclude):
                regular = status is not None and stat.S_ISREG(status.st_mode)
                facts = FileStat.of(status) if status is not None and regular else None
                named = explicit or (logs and is_log(path))
                yield (MediaItem(path, facts, explicit=named),)

    def _may_overlap(self) -> bool:
        first = self.specs[0] if self.specs else ""
        return len(self.specs) > 1 or _kind(first) in {"list", "stdin"} or first.count("**") > 1


def _kind(spec: str) -> str:
    if spec == STDIN:
        return "stdin"
    if is_url(spec):
        return "path"
    if _lexists(spec):
        return "path"
    if spec.startswith("@"):
        return "list"
    return "glob" if has_magic(spec) else "path"


def _lexists(path: str) -> bool:
    try:
        os.lstat(path)
    except (OSError, ValueError):  # ValueError: a NUL inside
        return False
    return True


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def _once(batches: Iterable[Sequence[MediaItem]]) -> Iterator[Sequence[MediaItem]]:
    seen: set[str] = set()
    for batch in batches:
        names = _names(batch)
        if seen.isdisjoint(names):
            yield batch
        elif isinstance(batch, FolderFiles):
            yield batch.chosen(name not in seen for name in names)
        else:
            yield [item for item, name in zip(batch, names, strict=True) if name not in seen]
        seen.update(names)


def _names(batch: Sequence[MediaItem]) -> list[str]:
    """What tells each item from others; those of a batch differ anyway."""
    if isinstance(batch, FolderFiles):
        prefix = _name(batch.prefix)
        return [*map(("" if prefix == "." else os.path.join(prefix, "")).__add__, batch.names)]
    return [_name(item.path) for item in batch]


def _name(path: str) -> str:
    # `a/../b` may be another file than `b` where `a` is a link: left as it is.
    as_it_is = "/../" in f"/{path}/" or is_url(path)  # `a//b` is another object than `a/b`
    return path if as_it_is else os.path.normpath(path)


def shard_of(path: str, *, count: int) -> int:
    """The shard, 0 to `count` - 1, of an item: by its path alone, the same on every machine.

    >>> [shard_of(name, count=4) for name in ("a.jpg", "b.jpg", "c.jpg")]
    [2, 2, 1]
    """
    hashed = hashlib.sha256(os.fsencode(path)).digest()
    return int.from_bytes(hashed[:8], "big") % count
