"""Files that a request log names: below one folder, or one prefix of a bucket, and no others."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

from vcache_cli.buckets import is_url, open_bucket, parse_place
from vcache_cli.errors import UsageError
from vcache_cli.items import FileStat, MediaItem
from vcache_cli.media.object_bytes import object_stat

__all__ = ["References"]

_MAX_KNOWN: Final = 100_000


@dataclass(frozen=True, slots=True)
class References:
    """What lies below `root`. One pass."""

    root: str
    """A folder, or the URL of one in a bucket."""
    known: dict[str, FileStat | None] = field(default_factory=dict)
    """Objects that were asked for before."""

    def reads(self, scheme: str) -> bool:
        """True for schemes of what may lie there; the empty one is that of paths."""
        return scheme in {"", "file"} or (
            is_url(self.root) and scheme == parse_place(self.root).scheme
        )

    def item(self, text: str, *, scheme: str) -> MediaItem | None:
        """The item that a log means by `text`; None where it lies outside of the root.

        Raises:
            ReadError: nothing can be told of an object.
        """
        return self._object(text, scheme) if is_url(self.root) else self._file(text, scheme)

    def _file(self, text: str, scheme: str) -> MediaItem | None:
        root = os.path.realpath(self.root)
        try:
            place = os.path.realpath(os.path.join(root, _local(text, scheme)))
            inside = os.path.commonpath([root, place]) == root and place != root
            stat = FileStat.of(os.stat(place)) if inside and os.path.exists(place) else None
        except (OSError, ValueError, UnicodeError):
            return None
        return MediaItem(place, stat, explicit=True) if inside else None

    def _object(self, text: str, scheme: str) -> MediaItem | None:
        root = parse_place(self.root)
        if text.startswith("/"):
            return None
        try:
            named = parse_place(text) if scheme else root.below(text)
        except UsageError:  # of no bucket, or with something secret in it
            return None
        path = posixpath.normpath(named.path)
        prefix = f"{root.path}/" if root.path else ""
        is_outside = named.scheme != root.scheme or path in {root.path, "."} or "\0" in path
        if is_outside or not path.startswith(prefix) or path.startswith("../"):
            return None
        url = root.at(path).url
        if url not in self.known:
            if len(self.known) >= _MAX_KNOWN:
                self.known.clear()
            facts = open_bucket(root).facts(path)
            self.known[url] = None if facts is None or facts.is_folder else object_stat(facts)
        return MediaItem(url, self.known[url], explicit=True)


def _local(text: str, scheme: str) -> str:
    """The path that a log means.

    Raises:
        ValueError: another scheme, or another host.
    """
    if not scheme:
        return text
    place = urlsplit(text)
    if scheme != "file" or place.netloc not in {"", "localhost"}:
        raise ValueError(text)
    return os.fsdecode(unquote_to_bytes(place.path))
