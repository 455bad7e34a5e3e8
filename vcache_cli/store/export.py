"""Writing the entries of a store as one archive, as FORMAT.md states it. Reads the store only."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vcache_cli.digest import digest_bytes
from vcache_cli.errors import InvalidEntryError
from vcache_cli.store.archive_parts import (
    END_NAME,
    MAX_PART_FILES,
    ArchivedFile,
    End,
    Origin,
    Part,
    part_name,
)
from vcache_cli.store.archive_tar import END_MARK, MAX_MEMBER_BYTES, filling, member_header
from vcache_cli.store.files import OsFiles
from vcache_cli.store.reader import EntryReader
from vcache_cli.store.remarks import Remarks
from vcache_cli.store.rows import VANISHED
from vcache_cli.store.scan import walk
from vcache_cli.store.trust import check_trust

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from typing import Final

    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.rows import FileFacts

__all__ = ["ExportResult", "StoreFiles", "export_store"]

_PART_BYTES: Final = 32 * 1024**2
"""Of entries that are held at once; one that is larger is held alone."""


@dataclass(slots=True)
class ExportResult:
    """What an export wrote and what it could not."""

    target: str
    entries: int = 0
    size_bytes: int = 0
    """Of the entries."""
    archive_bytes: int = 0
    vanished: int = 0
    """Entries that were removed while the export went on; they are named in the warnings."""
    manifest_sha256: str = ""
    """Of the whole manifest, which has the digest of every entry."""
    seconds: float = 0.0
    remarks: Remarks = field(default_factory=Remarks)

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.export/1``."""
        return {
            "target": self.target,
            "entries": self.entries,
            "bytes": self.size_bytes,
            "archive_bytes": self.archive_bytes,
            "vanished": self.vanished,
            "manifest_sha256": self.manifest_sha256,
            "seconds": {"total": self.seconds},
            **self.remarks.as_json(),
        }


class StoreFiles:
    """The entries of a store as bytes, each read from one open file and checked. One pass.

    Args:
        root: the store.
        remarks: takes what could not be read, or is damaged.
        wanted: keys; None for all.
        place: put before what is told of an entry, where stores are several.

    Raises:
        RefusedError: someone else could have filled the store.
        AccessError: it cannot be examined.
    """

    def __init__(
        self,
        root: StoreRoot,
        remarks: Remarks,
        wanted: Container[str] | None = None,
        *,
        place: str = "",
    ) -> None:
        check_trust(root)
        self._root, self._remarks, self._wanted = root, remarks, wanted
        self._place = f"{place}: " if place else ""
        self._reader = EntryReader(OsFiles(), root.layout)
        self.vanished = 0
        """Listed, and gone when they were to be opened."""

    def __iter__(self) -> Iterator[tuple[str, ArchivedFile, bytes]]:
        """Key, description and bytes of each, in the order of keys."""
        for directory in walk(self._root.path, self._root.layout):
            if directory.error:
                self._fail(directory.path or ".", "io_error", directory.error)
            for facts in directory.entries:
                key = facts.key or ""
                if self._wanted is None or key in self._wanted:
                    data = self._read(key, facts)
                    if data is not None:
                        file = ArchivedFile(facts.path, len(data), digest_bytes(data))
                        yield key, file, data

    def _read(self, key: str, facts: FileFacts) -> bytes | None:
        try:
            data = self._reader.load(f"{self._root.path}/{facts.path}")
            self._reader.parse(data, facts.path)
        except InvalidEntryError as error:
            self._fail(key, error.finding, error.message)
        except OSError as error:
            if error.errno not in VANISHED:
                self._fail(key, "io_error", error.strerror or str(error))
                return None
            self.vanished += 1
            self._remarks.warn(key, "vanished", f"{self._place}it was removed meanwhile")
        else:
            return data
        return None

    def _fail(self, key: str, kind: str, message: str) -> None:
        self._remarks.fail(key, kind, f"{self._place}{message}")


def export_store(
    root: StoreRoot, write: Callable[[bytes], object], *, wanted: Container[str] | None = None
) -> ExportResult:
    """Write the entries to an archive; the same entries give the same bytes.

    What is damaged or cannot be read is left out and told. Times of use do not change.

    Args:
        root: the store.
        write: takes all bytes it is given.
        wanted: keys; None for all.

    Raises:
        RefusedError, AccessError: see `StoreFiles`.
    """
    started = time.monotonic()
    result = ExportResult(root.meta.target)
    origin = Origin(root.meta.target, root.meta.target_options, root.meta.format)
    out = _Archive(origin, write, result)
    files = StoreFiles(root, result.remarks, wanted)
    for key, file, data in files:
        if file.size_bytes > MAX_MEMBER_BYTES:
            result.remarks.fail(key, "size", f"an archive holds at most {MAX_MEMBER_BYTES} bytes")
        else:
            out.add(file, data)
    out.end()
    result.vanished = files.vanished
    result.seconds = time.monotonic() - started
    return result


class _Archive:
    """Collects entries until a part is full, and writes it with them."""

    def __init__(
        self, origin: Origin, write: Callable[[bytes], object], result: ExportResult
    ) -> None:
        self._origin, self._write, self._result = origin, write, result
        self._held: list[tuple[ArchivedFile, bytes]] = []
        self._held_bytes = self._parts = 0
        self._manifest = hashlib.sha256()

    def add(self, file: ArchivedFile, data: bytes) -> None:
        full = self._held_bytes + file.size_bytes > _PART_BYTES
        if self._held and (full or len(self._held) == MAX_PART_FILES):
            self._flush()
        self._held.append((file, data))
        self._held_bytes += file.size_bytes

    def end(self) -> None:
        if self._held or not self._parts:  # an empty store is a whole archive too
            self._flush()
        result = self._result
        result.manifest_sha256 = self._manifest.hexdigest()
        end = End(self._parts, result.entries, result.size_bytes, result.manifest_sha256)
        self._member(END_NAME, end.encoded())
        self._put(END_MARK)

    def _flush(self) -> None:
        part = Part(self._parts, self._origin, tuple(file for file, _ in self._held)).encoded()
        self._manifest.update(part)
        self._member(part_name(self._parts), part)
        for file, data in self._held:
            self._member(file.path, data)
        self._result.entries += len(self._held)
        self._result.size_bytes += self._held_bytes
        self._parts += 1
        self._held.clear()
        self._held_bytes = 0

    def _member(self, name: str, data: bytes) -> None:
        self._put(member_header(name, len(data)))
        self._put(data)
        self._put(filling(len(data)))

    def _put(self, data: bytes) -> None:
        self._write(data)
        self._result.archive_bytes += len(data)
