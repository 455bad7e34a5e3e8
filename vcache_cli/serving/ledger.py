"""What a directory of entries holds, by size and recency, although others write there too."""

from __future__ import annotations

import contextlib
import heapq
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from vcache_cli.targets import OmlxLayout

__all__ = ["FileRecord", "Ledger"]

_RACY_NS: Final = 2_000_000_000
"""A directory changed so recently may change again without its mtime showing it."""


@dataclass(slots=True)
class FileRecord:
    """One entry's file."""

    size_bytes: int
    mtime_ns: int
    """As last seen on the disk."""
    used_ns: int
    """When it was last used, here or, as the mtime tells, by others; since 1970."""


class Ledger:
    """Names, sizes and times of entry files below `base`; opens none. One thread at a time.

    A directory is listed again only where its own mtime has changed. What others did shows at the
    next `refresh`; that they only used a file shows where `oldest` looks at it.
    """

    def __init__(self, base: str, layout: OmlxLayout) -> None:
        self._base, self._layout = base, layout
        self._files: dict[str, FileRecord] = {}
        self._by_shard: dict[str, set[str]] = {name: set() for name in layout.shards or ()}
        self._seen: dict[str, tuple[int, int]] = {}
        self._queue: list[tuple[int, str]] = []
        """A heap of (when used, key); a file used since is moved down when it comes up."""
        self.total_bytes = 0
        self.refreshed_seconds = float("-inf")
        """When `refresh` last ran, `time.monotonic`."""

    def __len__(self) -> int:
        return len(self._files)

    def get(self, key: str) -> FileRecord | None:
        """What is known of a key's file."""
        return self._files.get(key)

    def items(self) -> list[tuple[str, FileRecord]]:
        """All files known; a copy."""
        return list(self._files.items())

    def add(self, key: str, facts: os.stat_result, used_ns: int = 0) -> None:
        """A file that is there now, new or in place of another."""
        record = self._files.get(key)
        if record is None or record.mtime_ns != facts.st_mtime_ns:
            used_ns = max(used_ns, min(facts.st_mtime_ns, time.time_ns()))
        if record is None:
            self._files[key] = FileRecord(facts.st_size, facts.st_mtime_ns, used_ns)
            self._by_shard[self._shard(key)].add(key)
            self.total_bytes += facts.st_size
            heapq.heappush(self._queue, (used_ns, key))
        else:
            self.total_bytes += facts.st_size - record.size_bytes
            record.size_bytes, record.mtime_ns = facts.st_size, facts.st_mtime_ns
            record.used_ns = max(record.used_ns, used_ns)

    def forget(self, key: str) -> None:
        """A file that is gone."""
        record = self._files.pop(key, None)
        if record is not None:
            self._by_shard[self._shard(key)].discard(key)
            self.total_bytes -= record.size_bytes

    def refresh(self) -> None:
        """Find what others wrote and removed."""
        for shard in self._by_shard:
            folder = f"{self._base}/{shard}"
            try:
                facts = os.stat(folder)
                mark = (facts.st_mtime_ns, facts.st_ino)
                if self._seen.get(shard) == mark:
                    continue
                settled = time.time_ns() - facts.st_mtime_ns > _RACY_NS
                found = dict(self._listed(folder, shard))
            except OSError:
                mark, settled, found = (0, 0), False, {}
            self._seen[shard] = mark if settled else (0, 0)
            for key in self._by_shard[shard] - found.keys():
                self.forget(key)
            for key, status in found.items():
                self.add(key, status)
        self.refreshed_seconds = time.monotonic()
        self._compact()

    def oldest(self, *, keep: str) -> str | None:
        """The key used least recently, looked at just now; None where nothing but `keep` is left.

        Its file may be unlinked; the caller then calls `forget`.
        """
        kept: list[tuple[int, str]] = []
        try:
            while self._queue:
                used_ns, key = heapq.heappop(self._queue)
                if key == keep:
                    kept.append((used_ns, key))
                elif self._is_oldest(key, used_ns):
                    kept.append((used_ns, key))
                    return key
        finally:
            for item in kept:
                heapq.heappush(self._queue, item)
        return None

    def _is_oldest(self, key: str, used_ns: int) -> bool:
        record = self._files.get(key)
        if record is None:
            return False
        try:
            self.add(key, os.lstat(f"{self._base}/{self._layout.path_of(key)}"))
        except OSError:
            self.forget(key)
            return False
        if record.used_ns > used_ns:
            heapq.heappush(self._queue, (record.used_ns, key))
            return False
        return True

    def _shard(self, key: str) -> str:
        return self._layout.path_of(key).partition("/")[0]

    def _listed(self, folder: str, shard: str) -> Iterator[tuple[str, os.stat_result]]:
        with os.scandir(folder) as listing:
            for item in listing:
                key = self._layout.key_of(f"{shard}/{item.name}")
                if key is not None:
                    with contextlib.suppress(FileNotFoundError):  # removed since it was listed
                        facts = item.stat(follow_symlinks=False)
                        if stat.S_ISREG(facts.st_mode):
                            yield key, facts

    def _compact(self) -> None:
        if len(self._queue) > 2 * len(self._files) + 64:
            self._queue = [(each.used_ns, key) for key, each in self._files.items()]
            heapq.heapify(self._queue)
