"""A row: what is known of one entry without reading its tensors."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from vcache_cli.errors import InvalidEntryError
from vcache_cli.quantity import format_time, parse_time
from vcache_cli.store.reader import read_header

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from typing import Final

    from vcache_cli.entry import Entry
    from vcache_cli.store.meta import StoreRoot

__all__ = [
    "BLOCK_BYTES",
    "VANISHED",
    "EntryRow",
    "FileFacts",
    "TensorShape",
    "damaged_row",
    "mtime_ns_of",
    "read_row",
    "row_of",
    "within_64_bits",
]

BLOCK_BYTES: Final = 512
"""The unit of `st_blocks`, whatever the filesystem's own blocks are."""
VANISHED: Final = frozenset({errno.ENOENT, errno.ESTALE})
"""What says that a file is not there any more: a miss, never damage."""


_MAX_NS: Final = 2**63 - 1
"""What SQLite can hold: the year 2262. A broken clock or an archive may say more."""


def within_64_bits(time_ns: int) -> int:
    """A time, as far from 1970 as the index can hold it."""
    return max(-_MAX_NS, min(time_ns, _MAX_NS))


def mtime_ns_of(stat: os.stat_result) -> int:
    """The mtime, as the index holds it."""
    return within_64_bits(stat.st_mtime_ns)


class FileFacts(NamedTuple):
    """One name below the root, as a directory listing and an lstat show it."""

    path: str
    """Below the root, ``/`` between parts."""
    mode: int
    """`st_mode`."""
    size_bytes: int
    allocated_bytes: int
    mtime_ns: int
    inode: int
    device: int
    links: int
    """Hard links; what has more than one is counted once in allocated bytes."""
    key: str | None
    """The key whose entry this is; None for anything that is no entry."""
    owner: int = -1
    """`st_uid`."""

    @property
    def identity(self) -> tuple[int, int, int, int, int]:
        """Bytes, allocated bytes, mtime, inode and links: equal where the file is the same."""
        return (self.size_bytes, self.allocated_bytes, self.mtime_ns, self.inode, self.links)

    @classmethod
    def of(cls, path: str, stat: os.stat_result, key: str | None = None) -> FileFacts:
        """From an lstat."""
        return cls(
            path,
            stat.st_mode,
            stat.st_size,
            stat.st_blocks * BLOCK_BYTES,
            mtime_ns_of(stat),
            stat.st_ino,
            stat.st_dev,
            stat.st_nlink,
            key,
            stat.st_uid,
        )


class TensorShape(NamedTuple):
    """Name, dtype and shape of one tensor."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One entry as `ls` shows it. What its file does not say is None or empty."""

    key: str
    path: str
    """Below the root, ``/`` between parts."""
    size_bytes: int
    allocated_bytes: int
    used_ns: int
    """mtime: when it was last used, or written where its server never touches."""
    inode: int
    links: int = 1
    created_seconds: int | None = None
    """Since 1970, from the header."""
    stage: str | None = None
    kind: str | None = None
    model: str | None = None
    num_tokens: int | None = None
    tensors: tuple[TensorShape, ...] = ()
    source_sha256: str | None = None
    finding: str | None = None
    """Why the header says nothing: ``header``, ``key_mismatch`` or ``io_error``."""

    @property
    def age_from_seconds(self) -> int:
        """When it came to be, seconds since 1970: as the header says, else its mtime."""
        if self.created_seconds is not None:
            return self.created_seconds
        return self.used_ns // 1_000_000_000

    def as_json(self, source: str | None = None) -> dict[str, Any]:
        """The fields of an entry of ``vcache.ls/1``; unknown ones are left out."""
        created = self.created_seconds
        value: dict[str, Any] = {
            "key": self.key,
            "path": self.path,
            "stage": self.stage,
            "kind": self.kind,
            "model": self.model,
            "bytes": self.size_bytes,
            "created": None if created is None else format_time(created),
            "used": format_time(self.used_ns / 1e9),
            "num_tokens": self.num_tokens,
            "tensors": [
                {"name": name, "dtype": dtype, "shape": list(shape)}
                for name, dtype, shape in self.tensors
            ],
            "source_sha256": self.source_sha256,
            "source": source,
            "finding": self.finding,
        }
        return {name: part for name, part in value.items() if part is not None}


def row_of(facts: FileFacts, entry: Entry, tensors: Iterable[TensorShape]) -> EntryRow:
    """The row of an entry whose header is known; `tensors` in file order."""
    origin = entry.provenance
    return EntryRow(
        key=entry.key,
        path=facts.path,
        size_bytes=facts.size_bytes,
        allocated_bytes=facts.allocated_bytes,
        used_ns=facts.mtime_ns,
        inode=facts.inode,
        links=facts.links,
        created_seconds=_seconds(origin.created),
        stage=entry.stage.value,
        kind=origin.kind.value if origin.kind else None,
        model=origin.model,
        num_tokens=origin.num_tokens,
        tensors=tuple(tensors),
        source_sha256=origin.source_sha256,
    )


def read_row(root: StoreRoot, facts: FileFacts) -> EntryRow | None:
    """The row of the entry file that a scan found; None where it vanished since.

    A file that is no entry gives a row with a `finding`.
    """
    try:
        found = read_header(f"{root.path}/{facts.path}", facts.path, root.layout)
    except InvalidEntryError as error:
        return damaged_row(facts, error.finding)
    except OSError as error:
        return None if error.errno in VANISHED else damaged_row(facts, "io_error")
    specs = found.header.tensors
    return row_of(
        facts, found.entry, (TensorShape(spec.name, spec.dtype, spec.shape) for spec in specs)
    )


def damaged_row(facts: FileFacts, finding: str) -> EntryRow:
    """The row of a file that lies where an entry belongs and is none."""
    return EntryRow(
        key=facts.key or "",
        path=facts.path,
        size_bytes=facts.size_bytes,
        allocated_bytes=facts.allocated_bytes,
        used_ns=facts.mtime_ns,
        inode=facts.inode,
        links=facts.links,
        finding=finding,
    )


def _seconds(created: str | None) -> int | None:
    if created is None:
        return None
    try:
        return int(parse_time(created))
    except (ValueError, OverflowError):
        return None  # a foreign file's own way to write a time is no damage
