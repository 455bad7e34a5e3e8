"""A server's own view of its store: listed and read as it would, and judged by its layout."""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import InvalidEntryError
from vcache_cli.items import display_path
from vcache_cli.protocols import Examiner, StoredFile
from vcache_cli.store.reader import read_plain_header
from vcache_cli.store.scan import scan_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

    from vcache_cli.header import HeaderLimits
    from vcache_cli.protocols import Layout, ServerView
    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.rows import FileFacts
    from vcache_cli.store.scan import Scan

__all__ = ["describe_file", "examine_store", "server_document"]

_SUFFIX: Final = ".safetensors"
_SHOWN: Final = 20
"""Files that go first, where none has to go yet."""
_MAX_LISTED: Final = 1_000
"""Elements of a list in a document."""


def examine_store(
    root: StoreRoot,
    *,
    scan: Scan | None = None,
    reads_headers: bool = True,
    now: float | None = None,
) -> ServerView | None:
    """What the server makes of its store; None where the layout does not know. Changes nothing.

    Args:
        root: the store.
        scan: what lies there, where it has just been walked.
        reads_headers: False where names alone have to do.
        now: seconds since 1970, from which ages count.
    """
    layout = root.layout
    if not isinstance(layout, Examiner):
        return None
    files = _in_listed_order(root, scan or scan_store(root))
    seen = [_stored(root, file, reads=reads_headers) for file in files]
    moment = time.time() if now is None else now
    return layout.examine(seen, is_folder=os.path.isdir, now=moment)


def describe_file(root: StoreRoot, path: str, size_bytes: int) -> Mapping[str, Any]:
    """What the server's file at `path` below the root says; empty where nothing can be told."""
    layout = root.layout
    if not isinstance(layout, Examiner):
        return {}
    file = _read(root, StoredFile(path, size_bytes))
    return {} if file.error else layout.describe(file)


def server_document(view: ServerView) -> dict[str, Any]:
    """The object `server` of ``vcache.stats/1``."""
    going = view.indexed[: view.evicts_next]
    first = view.indexed[: max(view.evicts_next, _SHOWN)]
    value: dict[str, Any] = {
        "capacity_bytes": view.capacity_bytes,
        "capacity_note": view.capacity_note or None,
        "indexed": _sums(view.indexed),
        "never_indexed": _sums(view.unindexed),
        "evicts_next": _sums(going),
        "evicts_first": [
            {"path": display_path(file.path), "bytes": file.size_bytes}
            for file in first[:_MAX_LISTED]
        ],
        "findings": dict(sorted(Counter(each.kind for each in view.findings).items())),
    }
    if len(first) > _MAX_LISTED:
        value["evicts_first_omitted"] = len(first) - _MAX_LISTED
    return {name: part for name, part in value.items() if part is not None}


def _sums(files: Iterable[StoredFile]) -> dict[str, int]:
    sizes = [file.size_bytes for file in files]
    return {"entries": len(sizes), "bytes": sum(sizes)}


def _in_listed_order(root: StoreRoot, scan: Scan) -> list[FileFacts]:
    """Regular files, those of a directory in the order in which the system lists it."""
    ordered: list[FileFacts] = []
    for directory in scan.directories:
        files = [*directory.entries, *directory.foreign]
        place = _places(os.path.join(root.path, directory.path)) if files else {}
        files.sort(key=lambda file: place.get(file.path.rpartition("/")[2], len(place)))
        ordered += [file for file in files if stat.S_ISREG(file.mode)]
    return ordered


def _places(folder: str) -> dict[str, int]:
    try:
        with os.scandir(folder) as listing:
            return {found.name: place for place, found in enumerate(listing)}
    except OSError:
        return {}


def _stored(root: StoreRoot, facts: FileFacts, *, reads: bool) -> StoredFile:
    file = StoredFile(facts.path, facts.size_bytes, facts.mtime_ns)
    return _read(root, file) if reads and facts.path.endswith(_SUFFIX) else file


def _read(root: StoreRoot, file: StoredFile) -> StoredFile:
    try:
        header, _ = read_plain_header(os.path.join(root.path, file.path), _limits(root.layout))
    except InvalidEntryError as error:
        return replace(file, error=error.message)
    except OSError as error:
        return replace(file, error=error.strerror or type(error).__name__)
    tensors = {spec.name: (spec.dtype, spec.shape) for spec in header.tensors}
    return replace(file, metadata=header.metadata, tensors=tensors)


def _limits(layout: Layout) -> HeaderLimits:
    """What any reader of the format takes: a file is judged by what it says, however odd."""
    return replace(layout.limits, name_pattern=r"(?s).*", foreign_dtypes=True)
