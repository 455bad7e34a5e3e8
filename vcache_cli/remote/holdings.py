"""Which entries a remote store holds, small enough to be sent to every worker. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vcache_cli.remote.entries import RemoteEntry

__all__ = ["Holdings"]

_NAME_BYTES: Final = 16
"""Of the SHA-256 of a path: no two paths that share so much of it can be found."""
_RECORD_BYTES: Final = _NAME_BYTES + 32


@dataclass(frozen=True, slots=True)
class Holdings:
    """Paths of entries with the digests of their objects: 48 bytes of each. Any thread."""

    packed: bytes = field(default=b"", repr=False)
    """A record for each path, in order."""

    @classmethod
    def of(cls, entries: Iterable[RemoteEntry]) -> Holdings:
        """Those of `entries`, each path once."""
        records = (_named(each.file.path) + bytes.fromhex(each.file.sha256) for each in entries)
        return cls(b"".join(sorted(records)))

    def __len__(self) -> int:
        """Entries."""
        return len(self.packed) // _RECORD_BYTES

    def digest(self, path: str) -> str | None:
        """SHA-256 of the object of the entry at `path`; None where there is no such entry."""
        name, low, high = _named(path), 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._record(middle)[:_NAME_BYTES] < name:
                low = middle + 1
            else:
                high = middle
        found = self._record(low)
        return found[_NAME_BYTES:].hex() if found[:_NAME_BYTES] == name else None

    def _record(self, number: int) -> bytes:
        return self.packed[number * _RECORD_BYTES : (number + 1) * _RECORD_BYTES]


def _named(path: str) -> bytes:
    return hashlib.sha256(path.encode()).digest()[:_NAME_BYTES]
