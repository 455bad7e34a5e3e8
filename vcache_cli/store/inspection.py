"""One entry, looked at closely: its header, its provenance, and whether its checksum holds."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vcache_cli.digest import digest_chunks
from vcache_cli.errors import InvalidEntryError, UsageError
from vcache_cli.items import display_path
from vcache_cli.protocols import Examiner
from vcache_cli.store.examine import describe_file
from vcache_cli.store.files import OsFiles
from vcache_cli.store.index import open_index
from vcache_cli.store.query import find_entries
from vcache_cli.store.reader import read_file, read_header

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Final

    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.rows import EntryRow

__all__ = ["Inspection", "digest_file", "inspect_entry", "inspect_target"]

_CHUNK_BYTES: Final = 1024**2
_MODELS: Final = "SELECT DISTINCT model FROM labels"


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the file of an entry says, and whether it can be believed."""

    row: EntryRow
    metadata: Mapping[str, str] = field(default_factory=dict)
    recipe: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    """Libraries, backend, device and dtype that made the tensors."""
    checksum: str | None = None
    """As recorded; None where the files of this target carry none."""
    problem: str | None = None
    """What is wrong with the file; None where it is whole."""
    source: str | None = None
    """Printable path of a source, where a run on this machine saw one."""
    server: Mapping[str, Any] = field(default_factory=dict)
    """What the file says in the server's words, where its layout knows them."""
    matched: str | None = None
    """By what it was found, where that is no key, file or picture."""

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.inspect/1``; unknown ones are left out."""
        value = self.row.as_json(self.source)
        if self.metadata:
            value |= {"metadata": dict(self.metadata), "recipe": dict(self.recipe)}
            value["provenance"] = dict(self.versions)
        if self.checksum:
            recorded = {"algorithm": "xxh3-128", "value": self.checksum}
            value["checksum"] = {**recorded, "ok": self.problem is None}
        if self.server:
            value["server"] = dict(self.server)
        if self.matched:
            value["matched"] = self.matched
        return {**value, "problem": self.problem} if self.problem else value


def inspect_target(root: StoreRoot, text: str) -> tuple[Inspection, ...]:
    """The entries that `text` names: a key or its beginning, a file of the store, or a picture.

    A picture is found by its content as it is now, never by its name. Where the server keys by a
    hash of the image, that hash names the entries of all models.

    Raises:
        UsageError: nothing is named so, or the beginnings of several keys.
        OSError: the picture cannot be read.
    """
    if _is_outside(root, text):
        rows = _rows_of_source(root, text)
        found = tuple(inspect_entry(root, row, source=display_path(text)) for row in rows)
    else:
        listing = find_entries(root, text)
        sources = listing.sources
        found = tuple(inspect_entry(root, row, sources.get(row.key)) for row in listing.entries)
    found = found or tuple(_of_image(root, text))
    if not found:
        raise UsageError(
            f"no entry for `{display_path(text)}` in {root.path}",
            hint="name a key, its beginning, an entry's file, or a picture that was warmed",
        )
    return found


def inspect_entry(root: StoreRoot, row: EntryRow, source: str | None = None) -> Inspection:
    """Read the whole file of `row`; damage is told in the result.

    Raises:
        OSError: the file cannot be read.
    """
    path = root.path / row.path
    server = describe_file(root, row.path, row.size_bytes)
    try:
        entry = read_header(path, row.path, root.layout).entry
    except InvalidEntryError as error:
        return Inspection(row, problem=error.message, source=source, server=server)
    problem = None
    try:
        read_file(OsFiles(), str(path), row.path, root.layout)
    except InvalidEntryError as error:
        problem = error.message
    field_name = root.layout.checksum_field
    return Inspection(
        row,
        metadata=entry.metadata,
        recipe=entry.recipe,
        versions=entry.provenance.versions,
        checksum=entry.metadata.get(field_name) if field_name else None,
        problem=problem,
        source=source,
        server=server,
    )


def digest_file(path: str) -> str:
    """SHA-256 of a file's content, read in steps.

    Raises:
        OSError: it cannot be read.
    """
    return digest_chunks(_chunks(path))


def _of_image(root: StoreRoot, image_hash: str) -> Iterator[Inspection]:
    """Entries of the image with the server's own hash `image_hash`, whichever model they are of."""
    if not isinstance(root.layout, Examiner):
        return
    with open_index(root) as index:
        index.refresh()
        models = sorted(name for (name,) in index.query(_MODELS, types=(str | None,)) if name)
        matches = root.layout.keys_of(image_hash, models)
        rows = [(row, matches[row.key]) for row in index.rows() if row.key in matches]
    for row, why in rows:
        yield replace(inspect_entry(root, row), matched=why)


def _is_outside(root: StoreRoot, text: str) -> bool:
    """True for a file that does not lie in the store."""
    inside = os.path.realpath(text).startswith(os.path.realpath(root.path) + os.sep)
    return os.path.isfile(text) and not inside


def _rows_of_source(root: StoreRoot, path: str) -> list[EntryRow]:
    digest = digest_file(path)
    with open_index(root) as index:
        index.refresh()
        return list(index.rows("WHERE source = ?", (bytes.fromhex(digest),)))


def _chunks(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk
