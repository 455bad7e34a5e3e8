"""From the printable names of a run file back to files."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Final

__all__ = ["INSIDE", "find_file", "list_failed", "spelled"]

INSIDE: Final = "::"
"""Between a container and a part of it."""
_TOGETHER: Final = " + "
"""Between the pictures of one request."""
_BYTE: Final = re.compile(r"\\x([89a-f][0-9a-f])")


def spelled(source: str) -> list[bytes]:
    r"""The names that a printable one may stand for, the likelier first.

    >>> spelled("a.png"), spelled("caf\\xe9")
    ([b'a.png'], [b'caf\xe9', b'caf\\xe9'])
    """
    plain = source.encode("utf-8", "surrogateescape" if _escapable(source) else "replace")
    if not _BYTE.search(source):
        return [plain]
    other = re.sub(rb"\\x([89a-f][0-9a-f])", lambda found: bytes.fromhex(found[1].decode()), plain)
    return [other, plain]


def find_file(source: str, folder: str | None) -> bytes | None:
    """The file of a source that is a file by itself; None where there is none now.

    Args:
        source: as in the run file.
        folder: that relative names are meant in; None for the current one.
    """
    base = next(iter(spelled(folder)), b"") if folder else b""
    for name in spelled(source):
        path = os.path.join(base, name)
        if b"\0" not in path and os.path.lexists(path):
            return path
    return None


def list_failed(sources: Iterable[str], folder: str | None) -> Iterator[bytes]:
    """The files to name again so that what failed is tried again, each once.

    Of a part of an archive, a table or a log that is the file; of a request, each picture. What is
    not there any more is named as it was.
    """
    seen: set[bytes] = set()
    for source in sources:
        for path in _files(source, folder):
            if path not in seen:
                seen.add(path)
                yield path


def _files(source: str, folder: str | None) -> list[bytes]:
    for parts in ([source], [source.partition(INSIDE)[0]], source.split(_TOGETHER)):
        found = [find_file(part, folder) for part in parts]
        if all(found):
            return [path for path in found if path]
    base = next(iter(spelled(folder)), b"") if folder else b""
    return [os.path.join(base, spelled(source.partition(INSIDE)[0])[0])]


def _escapable(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
