"""Lists of paths: one per line, or separated by NUL; any bytes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vcache_cli.errors import UsageError
from vcache_cli.items import display_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO, Final

__all__ = ["STDIN", "list_lines", "split_lines"]

STDIN: Final = "-"
_CHUNK_BYTES: Final = 65536


def list_lines(path: str, *, null: bool) -> Iterator[str]:
    """The paths in the list file `path`, as the operating system spells them.

    Raises:
        UsageError: the list cannot be read.
    """
    try:
        with open(path, "rb") as file:
            yield from split_lines(file, null=null)
    except OSError as error:
        raise UsageError(f"list `{display_path(path)}`: {error.strerror}") from error


def split_lines(stream: BinaryIO, *, null: bool) -> Iterator[str]:
    """The non-empty parts of `stream`, streamed.

    Only the separator ends a name: spaces, ``#`` and carriage returns belong to it.
    """
    separator = b"\0" if null else b"\n"
    rest = b""
    while chunk := stream.read(_CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(separator)
        yield from (os.fsdecode(part) for part in whole if part)
    if rest:
        yield os.fsdecode(rest)
