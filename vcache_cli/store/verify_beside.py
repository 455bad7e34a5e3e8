"""What `verify` tells beside damage of entries: strangers, and what the server will not do well."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from vcache_cli.store.examine import examine_store
from vcache_cli.store.index_values import unpack_key
from vcache_cli.store.presence import has_real_shards
from vcache_cli.store.verify_entry import Problem, problem_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from vcache_cli.store.index import Index
    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.rows import FileFacts
    from vcache_cli.store.scan import Scan

__all__ = ["known_files", "links_in_place", "server_problems", "strangers"]


def server_problems(
    root: StoreRoot, scan: Scan, now: float, *, reads_headers: bool
) -> list[Problem]:
    """What the server will not do well with the files, entries or not; each is told, not damage."""
    view = examine_store(root, scan=scan, reads_headers=reads_headers, now=now)
    keys = {file.path: file.key for file in scan.entries}
    return [
        Problem(each.path, each.kind, keys.get(each.path), each.expected, each.actual)
        for each in (view.findings if view else ())
    ]


def strangers(root: StoreRoot, scan: Scan, told: Collection[str]) -> list[Problem]:
    """What is no entry and not ours, and what cannot be listed: told, never touched.

    Args:
        root: the store.
        scan: what lies there.
        told: paths of which more is known than that they are foreign.
    """
    problems = [
        problem_of(file, "foreign_file")
        for file in scan.foreign
        if file.path not in told and not _is_link_in_place(root, file)
    ]
    shards = {"", *(root.layout.shards or ())}
    for path, reason in scan.errors:
        kind = "io_error" if path in shards else "foreign_file"
        problems.append(Problem(path or ".", kind, actual=reason))
    return problems


def links_in_place(root: StoreRoot, scan: Scan) -> list[tuple[FileFacts, Problem]]:
    """Links where entries or shards belong, each with the damage that it is."""
    found = []
    for file in scan.foreign:
        if _is_link_in_place(root, file):
            key = root.layout.key_of(file.path)
            expected = "a folder" if key is None else "a regular file"
            found.append((file, Problem(file.path, "symlink", key, expected, "a link")))
    return found


def _is_link_in_place(root: StoreRoot, file: FileFacts) -> bool:
    """True for a link where an entry, or a shard of ours, belongs.

    Among strangers it may be anyone's, for any use.
    """
    if root.layout.shards is None or not stat.S_ISLNK(file.mode):
        return False
    if has_real_shards(root) and file.path in root.layout.shards:
        return True
    return root.layout.key_of(file.path) is not None


def known_files(index: Index) -> dict[str, tuple[int, int]]:
    """Size and inode of every entry, by key, as the index has them."""
    rows = index.stream("SELECT key, bytes, inode FROM entries", types=(bytes | str, int, int))
    return {unpack_key(key): (size, inode % 2**64) for key, size, inode in rows}
