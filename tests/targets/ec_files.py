"""vLLM's encoder cache as its server leaves it: written from the contract, with no code of ours.

The server names a directory by the item's id, puts one safetensors file into it, makes the
directory when it merely looks, and never removes anything.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FILE", "OTHER_UID", "Snapshot", "content", "digest_id", "look", "put", "snapshot"]

FILE = "encoder_cache.safetensors"
OTHER_UID = 54_321
"""Somebody else; to give files away takes root."""


def digest_id(number: int) -> str:
    """An id as the server's hasher makes it: 64 hexadecimal digits."""
    return hashlib.sha256(b"item %d" % number).hexdigest()


def content(
    rows: int = 3,
    width: int = 8,
    *,
    name: str = "ec_cache",
    dtype: str = "BF16",
    shape: list[int] | None = None,
    metadata: dict[str, str] | None = None,
) -> bytes:
    """A file of one tensor; bytes of 2 per element."""
    sides = [rows, width] if shape is None else shape
    size = 2
    for side in sides:
        size *= side
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    header[name] = {"dtype": dtype, "shape": sides, "data_offsets": [0, size]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(index % 251 for index in range(size))


def put(root: Path, name: str | bytes, data: bytes | None = None, *, age: float = 0.0) -> Path:
    """One entry, as the server saves it: not atomically, in the directory of its id."""
    folder = look(root, name)
    path = folder / FILE
    path.write_bytes(content() if data is None else data)
    if age:
        for each in (path, folder):
            _make_older(each, age)
    return path


def look(root: Path, name: str | bytes, *, age: float = 0.0) -> Path:
    """What asking for an id leaves: its directory."""
    folder = root / os.fsdecode(name)
    folder.mkdir(parents=True, exist_ok=True)
    if age:
        _make_older(folder, age)
    return folder


def _make_older(path: Path, seconds: float) -> None:
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


@dataclass(frozen=True)
class Snapshot:
    """A directory, name for name and byte for byte."""

    names: dict[str, tuple[int, ...]]
    """Mode, inode, owner, links, size and mtime of each path."""
    bytes: dict[str, str]
    """SHA-256 of each file, target of each link."""


def snapshot(root: Path) -> Snapshot:
    """All that lies at and below `root`; no access time is looked at."""
    names: dict[str, tuple[int, ...]] = {}
    found: dict[str, str] = {}
    for path in sorted([root, *root.rglob("*")]):
        facts = path.lstat()
        relative = os.fspath(path.relative_to(root))
        names[relative] = (
            facts.st_mode,
            facts.st_ino,
            facts.st_uid,
            facts.st_nlink,
            facts.st_size,
            facts.st_mtime_ns,
        )
        if path.is_symlink():
            found[relative] = os.readlink(path)
        elif path.is_file():
            found[relative] = hashlib.sha256(path.read_bytes()).hexdigest()
    return Snapshot(names, found)
