"""A directory of oMLX's feature files, which several processes and vcache fill together."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from vcache_cli.entry import Entry
from vcache_cli.errors import InvalidEntryError, NotAStoreError, UsageError, VcacheError
from vcache_cli.serving.ledger import Ledger
from vcache_cli.store import (
    DiskStore,
    OsFiles,
    StoreMeta,
    StoreRoot,
    check_trust,
    read_file,
    read_header,
    read_meta,
)
from vcache_cli.store.meta import FORMAT
from vcache_cli.store.writer import Packed, Publisher, pack_entry
from vcache_cli.targets import OmlxLayout, omlx_key

__all__ = ["FeatureFiles"]

_LAYOUT: Final = OmlxLayout()
_FILES: Final = OsFiles()
_REFRESH_SECONDS: Final = 1.0
"""Writes of others count towards the limit at most so much later; at the limit, at once."""
_TOUCH_NS: Final = 3_600 * 1_000_000_000
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})
_DAMAGED: Final = frozenset({"checksum", "header", "key_mismatch", "size"})

_log = logging.getLogger(__name__)


class FeatureFiles:
    """Reads from any thread without a lock; writes from one thread at a time.

    Nothing is remembered of what is absent, so a file that others write is found at once. The
    directory's size is known exactly at the start, whenever `size_bytes` is asked, and before
    anything is evicted; in between, others' writes are seen at most a second late.

    Args:
        cache_dir: the directory; made where there is none.
        max_size_bytes: bound on the entries together. Others may exceed it for a moment by what
            they write at the same time; the next write brings it back.
        count: called with ``errors`` or ``evictions`` for each of these.

    Raises:
        UsageError: the directory is a store of another target.
        RefusedError: someone else could have filled it.
        AccessError, FormatTooNewError, NotAStoreError, OSError: it cannot be used.
    """

    def __init__(
        self, cache_dir: str | os.PathLike[str], max_size_bytes: int, count: Callable[[str], None]
    ) -> None:
        path = Path(cache_dir).absolute()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        self._root = StoreRoot(path, _LAYOUT, _meta_of(path))
        check_trust(self._root)
        self._base = os.fspath(path)
        self._max_size_bytes = max_size_bytes
        self._count = count
        self._lock = threading.RLock()  # the ledger's
        self._placing = threading.Lock()  # while a file is put in its place or dropped
        self._ledger = Ledger(self._base, _LAYOUT)
        self._ledger.refresh()
        self._session: DiskStore | None = None
        self._publisher = Publisher(_FILES, self._root)
        self._warned = False

    # --- reading -----------------------------------------------------------------------------

    def load(self, model_name: str, image_hash: str) -> Entry | None:
        """The entry, read and verified whole; None where it is absent. A damaged one is dropped."""
        key = omlx_key(model_name, image_hash)
        relative = _LAYOUT.path_of(key)
        try:
            entry = read_file(_FILES, f"{self._base}/{relative}", relative, _LAYOUT)
        except InvalidEntryError as error:
            self._second_look(key, relative, error)
            return None
        except (OSError, MemoryError) as error:
            if not (isinstance(error, OSError) and error.errno in _ABSENT):
                self._fail(f"{relative} cannot be read", error)
            return None
        if _is_of(entry.metadata, model_name, image_hash):
            self.used(key)
            return entry
        return None  # two pairs whose texts run together alike

    def metadata(self, model_name: str, image_hash: str) -> Mapping[str, str]:
        """What the entry's header says; empty where there is none. Counts and drops nothing."""
        relative = _LAYOUT.path_of(omlx_key(model_name, image_hash))
        try:
            found = read_header(f"{self._base}/{relative}", relative, _LAYOUT).entry.metadata
        except (InvalidEntryError, OSError):
            return {}
        return found if _is_of(found, model_name, image_hash) else {}

    def used(self, key: str) -> None:
        """Note that an entry was used now; its file's mtime says so at most an hour later."""
        now = time.time_ns()
        record = self._ledger.get(key)
        if record is None:
            with self._lock, contextlib.suppress(OSError):  # others wrote it since we looked
                self._ledger.add(key, os.lstat(self._path(key)), now)
            record = self._ledger.get(key)
        if record is not None:
            record.used_ns = now
            if not 0 <= now - record.mtime_ns < _TOUCH_NS:
                self._touch(key, now)

    def _second_look(self, key: str, relative: str, error: InvalidEntryError) -> None:
        """Drop a damaged file, unless it was replaced while we read."""
        self._fail(f"{relative} is dropped", error)
        if error.finding not in _DAMAGED:
            return
        path = f"{self._base}/{relative}"
        with self._placing, contextlib.suppress(OSError):
            before = os.lstat(path)
            try:
                read_file(_FILES, path, relative, _LAYOUT)
            except InvalidEntryError:
                now = os.lstat(path)
                if (now.st_ino, now.st_mtime_ns) == (before.st_ino, before.st_mtime_ns):
                    os.unlink(path)
                    with self._lock:
                        self._ledger.forget(key)

    # --- writing -----------------------------------------------------------------------------

    def write(self, entry: Entry) -> bool:
        """Put an entry in its place, older ones out of the way; False where that failed.

        A failure is logged and counted; what was there before stays.
        """
        try:
            packed = pack_entry(entry, _LAYOUT)
            if packed.size_bytes > self._max_size_bytes:
                raise UsageError(
                    f"an entry of {packed.size_bytes} bytes, at most {self._max_size_bytes} fit"
                )
            self._open_session()
            self._make_room(entry.key, packed.size_bytes)
            self._publish(entry.key, packed)
        except (VcacheError, OSError, MemoryError) as error:
            self._fail("features are not written", error)
            return False
        self._warned = False
        return True

    def _open_session(self) -> None:
        """The write lock is held, and dead temps are swept, from the first write on."""
        if self._session is None:
            self._session = DiskStore(self._root, mode="w")

    def _make_room(self, key: str, size_bytes: int) -> None:
        ledger = self._ledger
        with self._lock:
            if time.monotonic() - ledger.refreshed_seconds > _REFRESH_SECONDS:
                ledger.refresh()
            if not self._exceeds(key, size_bytes):
                return
            ledger.refresh()
            while self._exceeds(key, size_bytes):
                victim = ledger.oldest(keep=key)
                if victim is None:
                    return
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._path(victim))
                    self._count("evictions")
                ledger.forget(victim)

    def _exceeds(self, key: str, size_bytes: int) -> bool:
        record = self._ledger.get(key)
        replaced_bytes = record.size_bytes if record else 0
        return self._ledger.total_bytes - replaced_bytes + size_bytes > self._max_size_bytes

    def _publish(self, key: str, packed: Packed) -> None:
        with self._placing:
            directories = self._publisher.publish(packed)
            now = time.time_ns()
            self._touch(key, now)
        self._publisher.sync(directories)
        with self._lock, contextlib.suppress(FileNotFoundError):
            self._ledger.add(key, os.lstat(self._path(key)), now)

    # --- the whole ---------------------------------------------------------------------------

    def size_bytes(self) -> int:
        """Bytes of all entries in the directory now, whoever wrote them."""
        with self._lock:
            self._ledger.refresh()
            return self._ledger.total_bytes

    def close(self) -> None:
        """Leave on the disk when each entry was last used; give the write lock back."""
        with self._lock:
            for key, record in self._ledger.items():
                if record.used_ns > record.mtime_ns:
                    self._touch(key, record.used_ns)
        if self._session is not None:
            self._session.close()
            self._session = None

    def _touch(self, key: str, used_ns: int) -> None:
        """Set the mtime to the nanosecond: the system's own clock ticks too coarsely for an order.

        Best effort: nothing happens on a read-only disk, or where others used it later.
        """
        path = self._path(key)
        with contextlib.suppress(OSError):
            found_ns = os.lstat(path).st_mtime_ns
            if found_ns < used_ns or found_ns > time.time_ns():
                os.utime(path, ns=(used_ns, used_ns), follow_symlinks=False)
                found_ns = used_ns
            if (record := self._ledger.get(key)) is not None:
                record.mtime_ns = found_ns

    def _path(self, key: str) -> str:
        return f"{self._base}/{_LAYOUT.path_of(key)}"

    def _fail(self, what: str, error: BaseException) -> None:
        """Count; warn once until something is written again."""
        self._count("errors")
        log = _log.debug if self._warned else _log.warning
        self._warned = True
        log("%s: %s: %s", self._base, what, error)


def _is_of(metadata: Mapping[str, str], model_name: str, image_hash: str) -> bool:
    return metadata["model_name"] == model_name and metadata["image_hash"] == image_hash


def _meta_of(path: Path) -> StoreMeta:
    """What the directory says of itself; where it says nothing, what we shall write there."""
    try:
        meta = read_meta(path)
    except NotAStoreError:
        if os.path.lexists(path / ".vcache" / "store.json"):
            raise
        return StoreMeta(FORMAT, secrets.token_hex(16), "omlx")
    if meta.target != "omlx":
        raise UsageError(
            f"{path} is a store of target `{meta.target}`, not `omlx`",
            hint="name another `cache_dir`",
        )
    return meta
