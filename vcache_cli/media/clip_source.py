"""A video file, open for its decoder: hashed in pieces, never read whole into memory."""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from typing import TYPE_CHECKING

from vcache_cli.buckets import is_url
from vcache_cli.errors import ReadError
from vcache_cli.media.read import opened, read_if

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from vcache_cli.items import MediaItem

__all__ = ["ClipSource", "open_source"]


@dataclass(frozen=True, slots=True, eq=False)
class ClipSource:
    """The encoded bytes of a clip."""

    file: BinaryIO
    """Can be sought in; open as long as the context is."""
    size_bytes: int
    source_sha256: str
    """Of all its bytes."""


@contextmanager
def open_source(item: MediaItem, *, max_bytes: int) -> Iterator[ClipSource]:
    """The clip that `item` is; what lies in a container or a bucket is held in memory.

    Raises:
        ReadError: kind ``not_found``, ``permission``, ``io_error``, ``too_large``,
            ``not_a_file`` or ``changed`` (written to while it was open).
    """
    if item.part or is_url(item.path):
        data = read_if(item, lambda _head: max_bytes) or b""
        yield _hashed(BytesIO(data), len(data))
        return
    with opened(item.path) as (handle, before):
        if before.st_size > max_bytes:
            raise ReadError(
                f"{before.st_size} bytes, more than the limit of {max_bytes}",
                kind="too_large",
                hint="leave it out, or cut it into parts",
            )
        with os.fdopen(os.dup(handle), "rb") as file:
            yield _hashed(file, before.st_size)
        after = os.fstat(handle)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise ReadError(
            "the file changed while it was read", kind="changed", hint="run again when it is whole"
        )


def _hashed(file: BytesIO | BufferedReader, size_bytes: int) -> ClipSource:
    return ClipSource(file, size_bytes, hashlib.file_digest(file, "sha256").hexdigest())
