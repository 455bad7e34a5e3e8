"""Entries straight into a bucket: no file of this machine stands between."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from vcache_cli.digest import digest_bytes
from vcache_cli.errors import AccessError, ReadError, StoreFullError, VcacheError
from vcache_cli.header import HeaderReader
from vcache_cli.remote.entries import RemoteEntry
from vcache_cli.remote.names import object_name
from vcache_cli.remote.push import ENDS_IT
from vcache_cli.store.archive_parts import ArchivedFile
from vcache_cli.store.pool import Gate
from vcache_cli.store.writer import pack_entry

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from vcache_cli.entry import Entry
    from vcache_cli.protocols import Layout
    from vcache_cli.remote.catalogue import RemoteStore

__all__ = ["UPLOADS", "ObjectWriter"]

UPLOADS: Final = 16
"""Objects written at once: a service takes many, each slowly."""
_MOST_QUEUED: Final = 64
_MOST_QUEUED_BYTES: Final = 256 * 1024**2
_MOST_FAILURES: Final = 16
"""In a row, after which the service is taken for gone, and nothing more is encoded for it."""


class ObjectWriter:
    """Writes entries as objects, in the bytes of their files. `submit` from any thread.

    Args:
        remote: where to.
        layout: of the entries.
        note: told of each entry once its object is there, from any thread.
    """

    def __init__(
        self, remote: RemoteStore, layout: Layout, note: Callable[[RemoteEntry], None]
    ) -> None:
        self._remote, self._layout, self._note = remote, layout, note
        self._headers = HeaderReader(layout.limits)
        self._gate = Gate(_MOST_QUEUED, _MOST_QUEUED_BYTES)
        self._pool = ThreadPoolExecutor(UPLOADS, thread_name_prefix="vcache-upload")
        self._lock = threading.Lock()
        self._over = threading.Event()
        """Set once nothing more can be written, or is to be."""
        remote.bucket.pause = self._pause
        self._failed_in_a_row = 0
        self.error: VcacheError | None = None
        """Why no more can be written."""

    def submit(self, entry: Entry) -> Future[int]:
        """Queue an entry; waits while too much is on its way.

        The future gives the bytes written once the object is there. Or it raises:
            AccessError, StoreFullError: none can be written any more; `error` says why.
            OSError: this one could not be.
            InvalidEntryError: the layout has no file for such an entry.
        """
        size_bytes = entry.file_bytes
        self._gate.enter(size_bytes)
        done = self._pool.submit(self._write, entry)
        done.add_done_callback(lambda _: self._gate.leave(size_bytes))
        return done

    def _write(self, entry: Entry) -> int:
        if self.error:
            raise self._ending(self.error)
        if self._over.is_set():
            raise OSError(errno.ECANCELED, "not written: the run was ended")
        packed = pack_entry(entry, self._layout, self._headers)
        data = b"".join(packed.parts)
        file = ArchivedFile(packed.relative, len(data), digest_bytes(data))
        try:
            self._remote.bucket.write(self._remote.path(object_name(file.sha256)), data)
        except ReadError as error:
            raise self._refused(error) from error
        with self._lock:
            self._failed_in_a_row = 0
        self._note(RemoteEntry.made(file, entry))
        return len(data)

    def _refused(self, error: ReadError) -> Exception:
        with self._lock:
            self._failed_in_a_row += 1
            if error.item_kind in ENDS_IT or self._failed_in_a_row >= _MOST_FAILURES:
                self.error = self.error or self._remote.failed(error)
                self._over.set()
        if self.error is None:
            return OSError(errno.EIO, f"not written: {error.message}")
        return self._ending(self.error)

    def _ending(self, error: VcacheError) -> VcacheError:
        """`error` as a kind that ends a pass."""
        if isinstance(error, AccessError | StoreFullError):
            return error
        return AccessError(error.message, hint=error.hint)

    def _pause(self, seconds: float) -> None:
        """Between two tries of one object; no other try where the run is over."""
        if self._over.wait(seconds):
            raise ReadError("given up", kind="interrupted")

    def abandon(self) -> None:
        """Begin nothing more, and try nothing again."""
        self._over.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish what was submitted, unless it was abandoned."""
        self._pool.shutdown(cancel_futures=self._over.is_set())
