"""What is remembered of a folder's files, read as columns: one row for all of them."""

from __future__ import annotations

import os
import struct
from itertools import starmap
from typing import TYPE_CHECKING

from vcache_cli.items import Kind
from vcache_cli.store.index_values import HASH_BYTES, unpack_hashes

if TYPE_CHECKING:
    import sqlite3
    from typing import Final

    from vcache_cli.folders import FolderFiles

__all__ = ["STAT", "unchanged_digests"]

STAT: Final = struct.Struct("<QqqQQ")
"""A `FileStat` as the index holds it."""

_LAST: Final = "SELECT path FROM unchanged WHERE path >= ? LIMIT 1 OFFSET ?"
_COLUMNS: Final = f"""
SELECT count(*),
    CAST(group_concat(path, x'00') AS BLOB),
    CAST(group_concat(stat, '') AS BLOB),
    CAST(group_concat(source, '') AS BLOB)
FROM unchanged WHERE path BETWEEN ? AND ? AND kind = '{Kind.IMAGE.value}'
    AND source >= x'' AND length(source) = {HASH_BYTES} AND length(stat) = {STAT.size}
"""  # noqa: S608  our own numbers; no text is as great as a blob


def unchanged_digests(connection: sqlite3.Connection, files: FolderFiles) -> list[str] | None:
    """The digest of each file, in order, where all are known, unchanged, and pictures.

    None where one is not, or where more is remembered of that folder: then each row tells.
    """
    prefix, count = os.fsencode(files.absolute_prefix), len(files)
    names = os.fsencode("/".join(files.names)).split(b"/")
    first, last = prefix + names[0], prefix + names[-1]
    if connection.execute(_LAST, (first, count - 1)).fetchone() != (last,):
        return None
    try:
        stats = b"".join(starmap(STAT.pack, files.facts))
    except struct.error:  # a time that 64 bits cannot hold
        return None
    # Values of one length each: columns that are alike as a whole are alike row by row.
    *found, digests = connection.execute(_COLUMNS, (first, last)).fetchone()
    if found != [count, prefix + (b"\0" + prefix).join(names), stats]:
        return None
    return unpack_hashes(digests)
