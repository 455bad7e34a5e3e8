"""The bytes of an item, as they will be sent."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from vcache_cli.digest import digest_bytes, digest_json
from vcache_cli.errors import ItemError, MediaError, ReadError
from vcache_cli.items import Group, Kind
from vcache_cli.media import claims_media, describe, read_if, sniff
from vcache_cli.outcome import Failure
from vcache_cli.replay.message import Encoded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vcache_cli.items import MediaItem, WarmItem
    from vcache_cli.replay.manner import Manner

__all__ = ["Found", "read_found"]

_NOT_MEDIA: Final = Failure("digest", "not_media", "no picture or video, by its first bytes")
_VIDEO: Final = Failure("digest", "video", "a video, and these are sent with --videos alone")


class Found(NamedTuple):
    """What an item is."""

    parts: tuple[Encoded, ...]
    digest: str
    """Of its bytes; of several pictures, of the list of theirs."""
    members: tuple[str, ...] = ()
    """Digests of the pictures of a request."""

    @property
    def size_bytes(self) -> int:
        """Of all parts."""
        return sum(len(each.data) for each in self.parts)


def read_found(item: WarmItem, manner: Manner) -> Found | Failure:
    """The item's bytes; a `Failure` where there is nothing to send.

    Raises:
        ItemError: it cannot be read, or is not what it claims to be.
    """
    if isinstance(item, Group):
        return _read_group(item, manner)
    if item.trouble:
        told = item.trouble
        if not told.skipped:
            raise ReadError(told.message, kind=told.kind, hint=told.hint)
        return Failure("discover", told.kind, told.message, told.hint)
    part = _read_one(item, manner)
    return part if isinstance(part, Failure) else Found((part,), digest_bytes(part.data))


def _read_group(group: Group, manner: Manner) -> Found:
    parts: list[Encoded] = []
    for item in group.items:
        with _named(item):
            part = _read_one(item, manner)
            if isinstance(part, Failure):
                raise MediaError(part.message, kind=part.kind)
            parts.append(part)
    members = tuple(digest_bytes(each.data) for each in parts)
    digest = members[0] if len(members) == 1 else digest_json(list(members))
    return Found(tuple(parts), digest, members)


def _read_one(item: MediaItem, manner: Manner) -> Encoded | Failure:
    kinds: list[Kind] = []

    def limit_of(head: bytes) -> int | None:
        kinds.append(sniff(head))
        if kinds[-1] is Kind.IMAGE or (kinds[-1] is Kind.VIDEO and manner.videos):
            return manner.max_file_bytes
        if kinds[-1] is Kind.OTHER and (item.explicit or claims_media(item.name)):
            raise MediaError(
                f"not a picture: {describe(head)}",
                kind="unrecognised",
                hint="replace the file, or leave it out of the corpus",
            )
        return None

    data = read_if(item, limit_of)
    if data is None:
        return _VIDEO if kinds[-1] is Kind.VIDEO else _NOT_MEDIA
    return Encoded(kinds[-1], data)


@contextmanager
def _named(item: MediaItem) -> Iterator[None]:
    """An error of one of several pictures names it."""
    try:
        yield
    except ItemError as error:
        message = f"{item.source}: {error.message}"
        raise type(error)(message, kind=error.item_kind, hint=error.hint) from error
