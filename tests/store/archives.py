"""Exports made by hand: right ones, and ones that are wrong in a single place."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.store.care import add, entry, make_store
from vcache_cli.digest import digest_bytes
from vcache_cli.store.archive_parts import END_NAME, ArchivedFile, End, Origin, Part, part_name
from vcache_cli.store.archive_tar import END_MARK, filling, member_header
from vcache_cli.store.export import export_store
from vcache_cli.store.meta import StoreRoot

__all__ = ["Draft", "Member", "draft", "exported", "filled", "member"]


@dataclass(frozen=True)
class Member:
    """A file of an archive, and what the manifest says of it."""

    file: ArchivedFile
    data: bytes
    header: bytes | None = None
    """None for the right one."""

    def encoded(self) -> bytes:
        """As it stands in the archive."""
        header = self.header
        if header is None:
            header = member_header(self.file.path, self.file.size_bytes)
        return header + self.data + filling(len(self.data))


@dataclass(frozen=True)
class Draft:
    """An archive of one part."""

    members: tuple[Member, ...]
    origin: Origin = field(default_factory=lambda: Origin("native"))
    part: bytes | None = None
    """None for the right one."""
    end: End | None = None
    extra: bytes = b""
    """Before the end."""

    def encoded(self) -> bytes:
        """The archive's bytes."""
        part = self.part
        if part is None:
            part = Part(0, self.origin, tuple(each.file for each in self.members)).encoded()
        size = sum(each.file.size_bytes for each in self.members)
        end = self.end or End(1, len(self.members), size, hashlib.sha256(part).hexdigest())
        ending = end.encoded()
        return b"".join(
            (
                *(member_header(part_name(0), len(part)), part, filling(len(part))),
                *(each.encoded() for each in self.members),
                self.extra,
                *(member_header(END_NAME, len(ending)), ending, filling(len(ending))),
                END_MARK,
            )
        )


def member(path: str, data: bytes) -> Member:
    """A file of that name, described as it is."""
    return Member(ArchivedFile(path, len(data), digest_bytes(data)), data)


def draft(root: StoreRoot) -> Draft:
    """The archive that `root`, a small native store, exports."""
    paths = sorted(root.path.glob("??/*.safetensors"))
    files = tuple(member(str(path.relative_to(root.path)), path.read_bytes()) for path in paths)
    return replace(Draft(files), origin=Origin(root.meta.target, root.meta.target_options))


def exported(root: StoreRoot) -> bytes:
    """What `vcache export` writes."""
    out = io.BytesIO()
    export_store(root, out.write)
    return out.getvalue()


def filled(path: Path, numbers: Sequence[int] = range(4)) -> StoreRoot:
    """A native store of small entries."""
    root = make_store(path)
    for number in numbers:
        add(root, entry(number))
    return root
