"""Fingerprints remembered between runs, so that a run without work reads no weights.

One small JSON file, ``{"format": 1, "fingerprints": {key: fingerprint}}``. A key covers size,
times and inode of every weight file that is read, so a changed file is another key. The file is
disposable: what cannot be read or written is forgotten, and whoever reads the weights finds out
whether the fingerprint is theirs.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tempfile
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from vcache_cli.digest import digest_json
from vcache_cli.errors import ModelError
from vcache_cli.items import FileStat

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Final

    from vcache_cli.checkpoint import Checkpoint, TensorRange
    from vcache_cli.protocols import TowerPlan

    Stamps = Mapping[str, FileStat]

__all__ = ["FingerprintMemo", "memo_key", "stamps"]

_MAX_ENTRIES: Final = 512
_MAX_BYTES: Final = 2**20
_SETTLED_NS: Final = 2 * 10**9
"""A file that changed a moment ago may change again without its times telling."""
_HEX: Final = re.compile(r"[0-9a-f]{64}")


def stamps(checkpoint: Checkpoint, plan: TowerPlan) -> dict[str, FileStat]:
    """What tells the weight files of a plan unchanged, by absolute path.

    Raises:
        ModelError: one of them cannot be examined.
    """
    found: dict[str, FileStat] = {}
    for path in {
        place.path for name in plan.tensors.values() for place in _parts(checkpoint, name)
    }:
        try:
            found[os.path.abspath(path)] = FileStat.of(os.stat(path))
        except OSError as error:
            raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    return found


def memo_key(checkpoint: Checkpoint, plan: TowerPlan, files: Stamps, *, version: str) -> str:
    """Names the files as they are, the plan, and the `version` of what a fingerprint covers."""
    tensors = {
        own: [_place(part) for part in _parts(checkpoint, name)]
        for own, name in plan.tensors.items()
    }
    return digest_json(
        {
            "version": version,
            "settings": dict(plan.settings),
            "tensors": tensors,
            "files": {os.fsencode(path).hex(): _fields(each) for path, each in files.items()},
        }
    )


def _parts(checkpoint: Checkpoint, name: str) -> list[TensorRange]:
    """Every range that is read for one tensor."""
    place = checkpoint.tensors[name]
    packed = place.packed
    return [place, packed.scales, packed.biases] if packed else [place]


def _place(place: TensorRange) -> list[Any]:
    packed = [place.packed.group_size, place.packed.bits] if place.packed else []
    file = os.fsencode(os.path.abspath(place.path)).hex()
    return [file, place.offset, place.size_bytes, place.dtype, list(place.shape), packed]


def _fields(facts: FileStat) -> list[int]:
    return [facts.size_bytes, facts.mtime_ns, facts.ctime_ns, facts.inode, facts.device]


class FingerprintMemo:
    """Remembers in one file. Any thread, any number of processes; the last writer wins.

    Args:
        path: of the file; its folder is made when something is remembered.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, key: str) -> str | None:
        """The fingerprint under `key`; None where it is not known."""
        return self._entries().get(key)

    def put(self, key: str, fingerprint: str, files: Stamps) -> None:
        """Remember it, unless one of `files` changed a moment ago."""
        latest = max(max(each.mtime_ns, each.ctime_ns) for each in files.values())
        if time.time_ns() - latest < _SETTLED_NS:
            return
        self.remember(key, fingerprint)

    def remember(self, key: str, digest: str) -> None:
        """What `get` says of `key` from now on, 64 hex both."""
        entries = self._entries()
        entries.pop(key, None)
        self._save(dict([*entries.items(), (key, digest)][-_MAX_ENTRIES:]))

    def forget(self, key: str) -> None:
        """Not to know `key` any more."""
        entries = self._entries()
        if entries.pop(key, None):
            self._save(entries)

    def _entries(self) -> dict[str, str]:
        try:
            with open(self._path, "rb", opener=_open_own) as file:
                content = json.loads(file.read(_MAX_BYTES))
        except (OSError, ValueError, RecursionError):
            return {}
        found = content.get("fingerprints") if isinstance(content, dict) else None
        if not isinstance(found, dict) or content.get("format") != 1:
            return {}
        return {key: value for key, value in found.items() if _is_digest(key) and _is_digest(value)}

    def _save(self, entries: Mapping[str, str]) -> None:
        with suppress(OSError):
            self._write(json.dumps({"format": 1, "fingerprints": entries}).encode())

    def _write(self, data: bytes) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=self._path.parent, prefix=".fingerprints-")
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
            os.replace(name, self._path)
        except OSError:
            with suppress(OSError):
                os.unlink(name)
            raise


def _open_own(path: str, flags: int) -> int:
    """An opener of plain files that nobody else can write; it never waits for a pipe's other end.

    Raises:
        OSError: it is another kind of file, or somebody else's.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    facts = os.fstat(descriptor)
    if stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o022:
        return descriptor
    os.close(descriptor)
    raise PermissionError(errno.EPERM, "not a file of this user alone", path)


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and _HEX.fullmatch(value) is not None
