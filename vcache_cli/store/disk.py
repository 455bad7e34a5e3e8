"""A store on disk, as a tier: get may miss, and never raises."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Final, Literal, Self

from vcache_cli.entry import Entry
from vcache_cli.errors import InvalidEntryError, UsageError, VcacheError
from vcache_cli.store.budget import Budget
from vcache_cli.store.files import FileOps, OsFiles
from vcache_cli.store.locks import gc_lock, write_lock
from vcache_cli.store.meta import StoreRoot
from vcache_cli.store.own import own_folder
from vcache_cli.store.pool import EntryWriter
from vcache_cli.store.presence import has_real_shards, shard_kind
from vcache_cli.store.reader import EntryReader
from vcache_cli.store.trust import check_trust
from vcache_cli.store.writer import Publisher

__all__ = ["DiskStore", "Finding"]

_TOUCH_SECONDS: Final = 3600.0
_DEAD_TEMP_SECONDS: Final = 3600.0
_MAX_FINDINGS: Final = 1000
_SHOWN_CHARS: Final = 80
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})
_KINDS: Final = {errno.ELOOP: "symlink", errno.EACCES: "mode", errno.EPERM: "mode"}


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a get missed although something was there."""

    key: str
    """Its first 80 characters: a hostile one must not fill the memory."""
    path: str
    """Below the root; empty where the key is none of this layout."""
    kind: str
    """A kind of ``vcache.verify/1``, or ``key``, ``memory``."""
    message: str


class DiskStore:
    """Entries in a directory. `get` and `contains` from any thread, without lock or index.

    Args:
        root: the store.
        mode: ``w`` holds the shared write lock until `close`; ``r`` writes no file.
        touch: a get counts as use: the entry's mtime becomes now, at most once an hour, where the
            disk and the owner allow it. False leaves times alone.
        files: the system calls.

    Raises:
        RefusedError: someone else could have filled the store.
        AccessError, StoreFullError, LockBusyError: with mode ``w``, it cannot be written.
        NotAStoreError: with mode ``w``, something else lies in the place of a folder of ours.
    """

    def __init__(
        self,
        root: StoreRoot,
        *,
        mode: Literal["r", "w"] = "r",
        touch: bool = True,
        files: FileOps | None = None,
    ) -> None:
        self.root = root
        self._touches = touch
        self.findings: deque[Finding] = deque(maxlen=_MAX_FINDINGS)
        self._files = files or OsFiles()
        self._base = os.fspath(root.path)
        self._reader = EntryReader(self._files, root.layout)
        self._has_real_shards = has_real_shards(root)
        self._real_shards: set[str] = set()
        self._held = contextlib.ExitStack()
        self._publisher: Publisher | None = None
        check_trust(root)
        if mode == "w":
            with contextlib.ExitStack() as held:  # what fails here leaves no lock behind
                held.enter_context(write_lock(root))
                publisher = Publisher(self._files, root)
                publisher.learn_shards()
                _sweep_dead_temps(root, time.time())
                self._held = held.pop_all()
            self._publisher = publisher

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles as a store that the other process opens anew, in the same mode."""
        mode: Literal["r", "w"] = "r" if self._publisher is None else "w"
        again = partial(type(self), self.root, mode=mode, touch=self._touches, files=self._files)
        return again, ()

    # --- reading -----------------------------------------------------------------------------

    def get(self, key: str) -> Entry | None:
        """The entry, read and verified whole; None where it is absent or anything is odd.

        What was odd is in `findings`, the last thousand of them. Never raises.
        """
        relative = ""
        try:
            relative = self.root.layout.path_of(key)
            path = self._place(relative)
            entry, used_seconds = self._reader.read_dated(path, relative)
            if self._touches:
                self._touch_sometimes(path, used_seconds)
            return entry
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in _ABSENT:
                kind = _KINDS.get(error.errno or 0, "io_error")
                self._find(key, relative, kind, error.strerror or str(error))
        except InvalidEntryError as error:
            self._find(key, relative, error.finding, error.message)
        except (TypeError, ValueError) as error:  # None or bytes for a key is a miss as well
            self._find(key, relative, "key", str(error))
        except MemoryError:
            self._find(key, relative, "memory", "the entry does not fit into memory")
        return None

    def _place(self, relative: str) -> str:
        """Where the entry lies; its shard is looked at once, not at every get.

        Raises:
            FileNotFoundError: there is no such shard.
            OSError: a link lies in the place of the shard.
        """
        path = f"{self._base}/{relative}"
        shard = relative.partition("/")[0]
        if self._has_real_shards and shard not in self._real_shards:
            if shard_kind(self._files, path) == stat.S_IFLNK:
                raise OSError(errno.ELOOP, "a link lies in the place of its shard", path)
            self._real_shards.add(shard)
        return path

    def contains(self, key: str) -> bool:
        """True where a regular file lies in the key's place; says nothing of damage."""
        return self.stat(key) is not None

    def stat(self, key: str) -> os.stat_result | None:
        """Stat of the key's file; None where there is no regular file."""
        try:
            facts = self._files.lstat(self._place(self.root.layout.path_of(key)))
        except (OSError, TypeError, ValueError):
            return None
        return facts if stat.S_ISREG(facts.st_mode) else None

    def touch(self, key: str) -> None:
        """Note that the entry was used: its mtime becomes now, at most once an hour.

        Best effort: nothing happens where it is absent, not ours or on a read-only disk. A time
        in the future is brought back to now.
        """
        facts = self.stat(key)
        if facts:
            self._touch_sometimes(f"{self._base}/{self.root.layout.path_of(key)}", facts.st_mtime)

    def _touch_sometimes(self, path: str, used_seconds: float) -> None:
        if not 0 <= time.time() - used_seconds < _TOUCH_SECONDS:
            with contextlib.suppress(OSError):
                self._files.touch(path)

    def _find(self, key: str, path: str, kind: str, message: str) -> None:
        shown = key if type(key) is str else repr(key)  # of a caller that is not type-checked
        self.findings.append(Finding(shown[:_SHOWN_CHARS], path, kind, message))

    # --- writing -----------------------------------------------------------------------------

    def put(self, entry: Entry) -> int:
        """Write the entry, replacing what was there; bytes of its file, durable on return.

        Raises:
            InvalidEntryError: the layout has no file for such an entry.
            StoreFullError, AccessError: see `Publisher.publish`.
            OSError: the disk failed in another way.
            UsageError: the store was not opened for writing.
        """
        publisher = self._writable()
        packed = publisher.pack(entry)
        publisher.sync(publisher.publish(packed))
        return packed.size_bytes

    def writer(self, threads: int = 4, budget: Budget | None = None) -> EntryWriter:
        """A pool of writers, to be closed before the store is.

        Raises:
            UsageError: the store was not opened for writing.
        """
        return EntryWriter(self._writable(), threads=threads, budget=budget)

    @property
    def is_writable(self) -> bool:
        """True where it was opened with mode ``w`` and not closed since."""
        return self._publisher is not None

    def _writable(self) -> Publisher:
        if self._publisher is None:
            raise UsageError(f'{self._base} is not open for writing (`mode="w"`)')
        return self._publisher

    # --- end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Give the write lock back; reading goes on working."""
        self._publisher = None
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _sweep_dead_temps(root: StoreRoot, now: float) -> None:
    """Remove what killed writers left; no writer needs an hour for one file.

    Raises:
        NotAStoreError: something else lies in the place of the folder of temps.
        AccessError, StoreFullError, OSError: that folder cannot be made.
    """
    with (
        own_folder(root, "tmp") as folder,
        contextlib.suppress(OSError, VcacheError),
        gc_lock(root),
        os.scandir(folder) as found,
    ):
        for item in found:
            facts = item.stat(follow_symlinks=False)
            if now - facts.st_mtime > _DEAD_TEMP_SECONDS:
                os.unlink(item.name, dir_fd=folder)
