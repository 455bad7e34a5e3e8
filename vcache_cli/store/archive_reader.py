"""Reading an export from a stream. Nothing of it is believed before it was compared.

A header is not understood but expected: the manifest says which member comes, and there is one
way to write its header. So a link, a device, another owner, a second name or size cannot occur.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Protocol

from vcache_cli.digest import digest_bytes
from vcache_cli.errors import RefusedError
from vcache_cli.store.archive_parts import (
    END_NAME,
    MAX_PART_BYTES,
    ArchivedFile,
    End,
    Part,
    end_of,
    part_name,
    part_of,
)
from vcache_cli.store.archive_tar import (
    BLOCK_BYTES,
    END_MARK,
    filling,
    member_header,
    plain_member,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

__all__ = ["ArchiveReader", "ByteSource"]

_STEP_BYTES: Final = 1024 * 1024
_KINDS: Final = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"5": "a folder",
    b"6": "a pipe",
    b"L": "a GNU long name",
    b"S": "a sparse file",
    b"g": "a global pax record",
    b"x": "a pax record",
}
_PACKED: Final = {
    b"\x1f\x8b": "gzip -dc",
    b"\x28\xb5\x2f\xfd": "zstd -dc",
    b"\xfd7zX": "xz -dc",
    b"BZh": "bzip2 -dc",
}


class ByteSource(Protocol):
    """Where an archive comes from; read once, from its beginning to its end."""

    def read(self, count: int, /) -> bytes:
        """At most `count` bytes; empty at the end."""
        ...


class ArchiveReader:
    """The parts of an archive in their order, and the files of each in theirs. One thread.

    Of each part, all files have to be taken or skipped before the next part is asked for.

    Args:
        source: read as far as the archive goes.
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._manifest = hashlib.sha256()
        self.read_bytes = 0
        """So far."""

    @property
    def manifest_sha256(self) -> str:
        """Of the parts read so far; the manifest's once `parts` came to its end."""
        return self._manifest.hexdigest()

    def parts(self) -> Iterator[Part]:
        """Each part, as soon as it is there; comes to its end only where nothing is missing.

        Raises:
            FormatTooNewError: written by a newer vcache.
            RefusedError: it is no export, was cut off, or is not as its manifest says.
            OSError: it could not be read.
        """
        count = entries = size_bytes = 0
        first: Part | None = None
        while (part := self._part(count)) is not None:
            if part.number != count or part.origin != (first or part).origin:
                raise self._refused("a part of another manifest")
            first = first or part
            count, entries = count + 1, entries + len(part.files)
            size_bytes += sum(each.size_bytes for each in part.files)
            yield part
        wanted = End(count, entries, size_bytes, self._manifest.hexdigest())
        if first is None or self._end != wanted:
            raise self._refused("its parts are not those that its end counts")
        if self._exactly(len(END_MARK)) != END_MARK or self._source.read(1):
            raise self._refused("something lies beyond its end")

    def take(self, file: ArchivedFile) -> bytes | None:
        """The bytes of the next file, which is `file`; None where they are not those promised.

        Raises:
            RefusedError, OSError: as `parts`.
        """
        self._expect(file)
        data = self._exactly(file.size_bytes)
        self._fill(file.size_bytes)
        return data if digest_bytes(data) == file.sha256 else None

    def skip(self, file: ArchivedFile) -> None:
        """Leave out the next file, which is `file`.

        Raises:
            RefusedError, OSError: as `parts`.
        """
        self._expect(file)
        for at in range(0, file.size_bytes, _STEP_BYTES):
            self._exactly(min(_STEP_BYTES, file.size_bytes - at))
        self._fill(file.size_bytes)

    def _part(self, number: int) -> Part | None:
        """None where the end is reached, which is noted."""
        block = self._exactly(BLOCK_BYTES, is_first=number == 0)
        name, size_bytes = plain_member(block) or ("", 0)
        if name not in {part_name(number), END_NAME} or size_bytes > MAX_PART_BYTES:
            raise self._stranger(block, is_first=number == 0)
        data = self._exactly(size_bytes)
        self._fill(size_bytes)
        if name == END_NAME:
            self._end = end_of(data)
            return None
        self._manifest.update(data)
        return part_of(data)

    def _expect(self, file: ArchivedFile) -> None:
        wanted = member_header(file.path, file.size_bytes)
        found = self._exactly(len(wanted))
        if found != wanted:
            raise self._stranger(found[:BLOCK_BYTES])

    def _fill(self, size_bytes: int) -> None:
        wanted = filling(size_bytes)
        if self._exactly(len(wanted)) != wanted:
            raise self._refused("something lies between its members")

    def _exactly(self, count: int, *, is_first: bool = False) -> bytes:
        """Memory is taken as the bytes come, whatever size was announced."""
        chunks: list[bytes] = []
        left = count
        while left:
            chunk = self._source.read(min(left, _STEP_BYTES))
            if not chunk:
                raise self._cut_off(b"".join(chunks), is_first=is_first)
            chunks.append(chunk)
            left -= len(chunk)
            self.read_bytes += len(chunk)
        return b"".join(chunks)

    def _cut_off(self, found: bytes, *, is_first: bool) -> RefusedError:
        if is_first:
            return self._stranger(found, is_first=True)
        return RefusedError(
            f"the archive ends after {self.read_bytes} bytes, before its end",
            hint="copy it again, and import it again: what is there is not read twice",
        )

    def _stranger(self, block: bytes, *, is_first: bool = False) -> RefusedError:
        for magic, unpack in _PACKED.items():
            if is_first and block.startswith(magic):
                return RefusedError(
                    "it is compressed", hint=f"`{unpack} FILE | vcache import -` takes it"
                )
        if is_first:
            return RefusedError(
                f"no export of vcache: it begins with {block[:20]!r}",
                hint="`vcache export FILE` writes one",
            )
        kind = _KINDS.get(block[156:157], "another member, or one with other attributes")
        return self._refused(f"expected the member that the manifest names, found {kind}")

    def _refused(self, reason: str) -> RefusedError:
        return RefusedError(
            f"the archive is damaged, or was made to harm: {reason}, before byte {self.read_bytes}"
        )
