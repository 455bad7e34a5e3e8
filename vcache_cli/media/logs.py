"""Request logs: each line's pictures and videos as items, and its pictures as a group.

Bytes stay in the log: an item of a data URI says where in the file its base64 lies, and whoever
works on the item reads it there.
"""

from __future__ import annotations

import binascii
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, Literal
from urllib.parse import unquote_to_bytes

from vcache_cli.buckets import is_url, parse_place
from vcache_cli.errors import MediaError, ReadError
from vcache_cli.items import FileStat, Group, MediaItem, Trouble
from vcache_cli.media.objects import plain_name
from vcache_cli.media.parts import Place, opened_container, opened_whole
from vcache_cli.media.read import HEAD_BYTES, check_size
from vcache_cli.media.readable import as_file, read_exactly
from vcache_cli.media.references import References
from vcache_cli.media.requests import MAX_PICTURES, Named, find_request, media_of

if TYPE_CHECKING:
    from vcache_cli.items import WarmItem

__all__ = ["LogRules", "TextPart", "log_items"]

MAX_LINE_BYTES: Final = 64 * 1024**2
_BASE64: Final = re.compile(r"data:[^,]{0,200};base64,", re.IGNORECASE)
_SCHEME: Final = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]{1,20})://|(data):)", re.IGNORECASE)
_STRING: Final = re.compile(rb'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_OUTSIDE: Final = Trouble(
    "outside_root",
    "names a file outside of the folder that may be read",
    hint="say with --media-root where the log's files lie",
)
_JUNK: Final = re.compile(rb"[^A-Za-z0-9+/=]")
"""What decoders of base64 pass over."""


@dataclass(frozen=True, slots=True)
class LogRules:
    """What a request log may name beside the pictures that it holds."""

    groups: Literal["no", "also", "only"] = "no"
    """Give requests as groups: beside their pictures those of several, or nothing but requests."""
    media_root: str | None = None
    """Files are read below this folder, or URL of one, only; None is the log's own."""
    allow_http: bool = False
    """Fetch what is named by http."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """Base64 inside a line."""

    name: str
    offset: int
    size_bytes: int

    @property
    def locator(self) -> str:
        """As `name`: a line has one picture of a number."""
        return self.name

    def read(
        self, path: str, stat: FileStat | None, limit_of: Callable[[bytes], int | None]
    ) -> bytes | None:
        """See `items.Part`."""
        with opened_container(path, stat, may_grow=True, at_once=self.size_bytes) as source:
            most = 4 * HEAD_BYTES  # escapes and line breaks among them
            head = read_exactly(source, self.offset, min(most, self.size_bytes))
            head = _decoded(head[: head.rfind(b"\\")] if b"\\" in head[-6:] else head, cut=True)
            max_bytes = limit_of(head[:HEAD_BYTES])
            if max_bytes is None:
                return None
            check_size(self.size_bytes // 2, max_bytes)
            data = _decoded(read_exactly(source, self.offset, self.size_bytes))
        check_size(len(data), max_bytes)
        return data


def _decoded(text: bytes, *, cut: bool = False) -> bytes:
    """What base64 in a JSON string stands for; with `cut`, of as much as is whole.

    Raises:
        MediaError: kind ``bad_base64``.
    """
    try:
        if b"\\" in text:
            text = json.loads(b'"' + text + b'"').encode("ascii")
        if b"%" in text:
            text = unquote_to_bytes(text)
        if cut:
            text = _JUNK.sub(b"", text)
            text = text[: len(text) // 4 * 4]
        return binascii.a2b_base64(text)
    except ValueError as error:
        if cut:
            return b""  # what is no base64 is told of the whole
        raise MediaError(
            f"its base64 is broken: {error}", kind="bad_base64", hint="leave it out of the log"
        ) from error


def log_items(path: str, stat: FileStat | None, rules: LogRules) -> Iterator[WarmItem]:
    """The pictures and videos of each line, then the pictures as a group where they are several.

    A line that records no request is an item that only says so; the rest goes on.

    Raises:
        ReadError: the log cannot be read.
    """
    root = plain_name(rules.media_root) if rules.media_root else _folder_of(path)
    log = _Log(path, stat, rules, References(root))
    with opened_whole(path, stat) as (source, _), as_file(source) as file:
        for number, offset, line in _lines(file):
            yield from log.items(number, offset, line)


def _folder_of(path: str) -> str:
    if not is_url(path):
        return os.path.dirname(path) or "."
    place = parse_place(path)
    return place.at(place.path.rpartition("/")[0]).url


def _lines(file: BinaryIO) -> Iterator[tuple[int, int, bytes | None]]:
    """Number, place and bytes of each line that is not empty; None for bytes of a longer one."""
    number, offset = 0, 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number, size = number + 1, len(line)
        too_long = size > MAX_LINE_BYTES
        while too_long and line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE_BYTES)
            size += len(line)
        if too_long:
            yield number, offset, None
        elif line.strip():
            yield number, offset, line
        offset += size


@dataclass(frozen=True, slots=True)
class _Log:
    path: str
    stat: FileStat | None
    rules: LogRules
    references: References

    def items(self, number: int, offset: int, line: bytes | None) -> Iterator[WarmItem]:
        try:
            named = _named(line)
        except (ValueError, RecursionError) as error:
            not_json = isinstance(error, json.JSONDecodeError | UnicodeError)
            told = "not JSON" if not_json else str(error)
            yield self._told(f"line {number}", "log_line", told)
            return
        only = self.rules.groups == "only"
        if not named or (only and all(each.is_video for each in named)):
            silent = Trouble("no_images", "a request without pictures", skipped=True, warns=False)
            yield MediaItem(self.path, self.stat, part=Place(f"line {number}"), trouble=silent)
            return
        found = [
            self._item(f"line {number} {_kind(each)} {order}", each, offset, line or b"")
            for order, each in enumerate(named, 1)
        ]
        yield from (each for each in found if each.trouble or not only)
        pairs = zip(found, named, strict=True)
        pictures = tuple(item for item, each in pairs if not each.is_video)
        wanted = only or (self.rules.groups == "also" and len(pictures) > 1)
        if wanted and not any(each.trouble for each in pictures):
            yield Group(pictures)

    def _told(self, name: str, kind: str, message: str) -> MediaItem:
        trouble = Trouble(kind, message, skipped=True)
        return MediaItem(self.path, self.stat, part=Place(name), trouble=trouble)

    def _item(self, name: str, named: Named, offset: int, line: bytes) -> MediaItem:
        prefix = 0 if named.is_base64 else _prefix(named.text)
        if prefix is not None:
            return self._inside(name, named.text[prefix:], offset, line)
        if not named.text:
            return self._told(name, "no_data", "the log does not hold it, nor say where it lies")
        scheme = _scheme(named.text)
        if scheme in {"http", "https"}:
            return self._remote(name, named.text)
        if not self.references.reads(scheme):
            return self._told(name, "unsupported_url", f"`{scheme}:` is not read")
        return self._file(name, named.text, scheme)

    def _inside(self, name: str, text: str, offset: int, line: bytes) -> MediaItem:
        place = _located(text, line)
        if place is None:
            return self._told(name, "unsupported_url", "its base64 is escaped more than once")
        part = TextPart(name, offset + place[0], place[1] - place[0])
        return MediaItem(self.path, self.stat, explicit=True, part=part)

    def _remote(self, name: str, url: str) -> MediaItem:
        if not self.rules.allow_http:
            told = "named by http, and nothing is fetched without --allow-http"
            return self._told(name, "http_not_allowed", told)
        from vcache_cli.media.fetch import UrlPart  # with http and ssl, which few runs need

        # Without a stat: what is at a URL may change at any time.
        return MediaItem(self.path, explicit=True, part=UrlPart(name, url))

    def _file(self, name: str, text: str, scheme: str) -> MediaItem:
        try:
            item = self.references.item(text, scheme=scheme)
        except ReadError as error:
            told = Trouble(error.item_kind, error.message, error.hint)
        else:
            if item is not None:
                return item
            told = _OUTSIDE
        return MediaItem(self.path, self.stat, part=Place(name), trouble=told)


def _kind(named: Named) -> str:
    return "video" if named.is_video else "image"


def _named(line: bytes | None) -> list[Named]:
    """The pictures and videos that a line names.

    Raises:
        ValueError: it records no request, or one beyond a limit.
    """
    if line is None:
        raise ValueError(f"more than {MAX_LINE_BYTES} bytes")
    request = find_request(json.loads(line))
    if request is None:
        raise ValueError("no request of a form that is known")
    named = list(media_of(request))
    if len(named) > MAX_PICTURES:
        raise ValueError(f"{len(named)} pictures and videos, more than {MAX_PICTURES}")
    return named


def _prefix(text: str) -> int | None:
    found = _BASE64.match(text)
    return found.end() if found else None


def _scheme(text: str) -> str:
    """Of a URL, in lower case; empty for a path.

    >>> _scheme("HTTPS://example.com/a.png"), _scheme("data:,a"), _scheme("a/b.png")
    ('https', 'data', '')
    """
    found = _SCHEME.match(text)
    return (found[1] or found[2]).lower() if found else ""


def _located(text: str, line: bytes) -> tuple[int, int] | None:
    """Where in `line` the bytes lie that stand for `text`; None where that cannot be told.

    Any place will do, since what is read there is what was found here.
    """
    plain = text.encode("utf-8", "surrogatepass")
    for spelled in (plain, plain.replace(b"/", b"\\/")):
        at = line.find(spelled)
        if at >= 0:
            return at, at + len(spelled)
    return _spelled_otherwise(text, line)


def _spelled_otherwise(text: str, line: bytes) -> tuple[int, int] | None:
    """As `_located`, for escapes that are allowed and unusual."""
    for found in _STRING.finditer(line):
        if b"\\" not in found[1] or len(found[1]) < len(text):
            continue
        decoded = json.loads(b'"' + found[1] + b'"')
        if decoded == text:
            return found.span(1)
        if (head := _prefix(decoded)) is not None and decoded[head:] == text:
            return found.start(1) + found[1].index(b",") + 1, found.end(1)
    return None
