"""Taking entries that others made into a store: checked, compared with what is there, published."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from vcache_cli.digest import digest_bytes
from vcache_cli.errors import InvalidEntryError, VcacheError
from vcache_cli.store.files import OsFiles
from vcache_cli.store.presence import Presence
from vcache_cli.store.reader import EntryReader
from vcache_cli.store.remarks import Remarks
from vcache_cli.store.rows import VANISHED
from vcache_cli.store.writer import Packed

if TYPE_CHECKING:
    from concurrent.futures import Future

    from vcache_cli.store.archive_parts import ArchivedFile
    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.pool import EntryWriter

__all__ = ["Intake", "IntakeResult", "Standing"]

Standing = Literal["absent", "damaged", "present", "kept"]
"""What lies in an entry's place: nothing, damage, the same bytes, or others that are as good."""


@dataclass(slots=True)
class IntakeResult:
    """What became of the entries that were offered."""

    target: str
    counts: Counter[str] = field(default_factory=Counter)
    """``stored``, ``repaired`` for a damaged one that was replaced, ``present``, ``kept``."""
    read_bytes: int = 0
    written_bytes: int = 0
    seconds: float = 0.0
    remarks: Remarks = field(default_factory=Remarks)
    error: VcacheError | OSError | None = None
    """What ended it early; what was stored before is whole and stays."""
    note: str = ""
    """What is left to do before the server sees what was stored; empty: nothing."""

    def as_json(self) -> dict[str, Any]:
        """The fields that ``vcache.import/1`` and ``vcache.merge/1`` have in common."""
        names = ("stored", "repaired", "present", "kept")
        entries = {name: self.counts[name] for name in names}
        failed = self.remarks.failed.total()
        return {
            "target": self.target,
            "entries": {"total": sum(entries.values()) + failed, **entries, "failed": failed},
            "bytes": {"read": self.read_bytes, "written": self.written_bytes},
            "seconds": {"total": self.seconds},
            "complete": self.error is None,
            **self.remarks.as_json(),
        }


class Intake:
    """Puts files of entries into a store, as they are. One thread; `finish` ends it.

    Args:
        root: the store.
        writer: of it, with its budget.
        result: is kept up to date.
    """

    def __init__(self, root: StoreRoot, writer: EntryWriter, result: IntakeResult) -> None:
        self._root, self._writer, self._result = root, writer, result
        self._reader = EntryReader(OsFiles(), root.layout)
        self._is_there = Presence(root)
        self._pending: deque[tuple[str, str, Future[int]]] = deque()
        self._in_flight: set[str] = set()

    def standing(self, key: str, file: ArchivedFile) -> Standing:
        """What lies where `file` would come to lie; whatever it is, its times do not change."""
        if key in self._in_flight:  # two sources have it: the first one stands
            self._settle(wait=True)
        if not self._is_there(key):
            return "absent"
        try:
            data = self._reader.load(f"{self._root.path}/{file.path}")
            if digest_bytes(data) == file.sha256:
                return "present"
            self._reader.parse(data, file.path)
        except OSError as error:
            return "absent" if error.errno in VANISHED else "damaged"
        except InvalidEntryError:
            return "damaged"
        return "kept"

    def leave(self, key: str, standing: Standing) -> None:
        """Count an entry that is ``present`` or ``kept``; of the latter the user is told."""
        self._result.counts[standing] += 1
        if standing == "kept":
            told = "the store has another entry of this key, which is whole and was kept"
            self._result.remarks.warn(key, "conflict", told)

    def fault(self, file: ArchivedFile, data: bytes) -> InvalidEntryError | None:
        """Why `data` is no entry that may lie at the file's path; None where it is one."""
        try:
            self._reader.parse(data, file.path)
        except InvalidEntryError as error:
            return error
        return None

    def put(self, key: str, file: ArchivedFile, data: bytes, standing: Standing) -> None:
        """Publish checked bytes where nothing is, or damage.

        Raises:
            StoreFullError, AccessError: an earlier one could not be written, nor can this.
        """
        self._settle(wait=False)
        if isinstance(self._result.error, VcacheError):
            raise self._result.error
        packed = Packed(file.path, [data], len(data))
        became = "repaired" if standing == "damaged" else "stored"
        self._pending.append((key, became, self._writer.submit_packed(packed)))
        self._in_flight.add(key)

    def finish(self) -> None:
        """Wait for what was put, and count it."""
        self._settle(wait=True)

    def _settle(self, *, wait: bool) -> None:
        while self._pending and (wait or self._pending[0][2].done()):
            key, became, done = self._pending.popleft()
            self._in_flight.discard(key)
            try:
                self._result.written_bytes += done.result()
                self._result.counts[became] += 1
            except VcacheError as error:
                self._result.remarks.fail(key, error.kind, error.message)
                self._result.error = self._result.error or error
            except OSError as error:
                self._result.remarks.fail(key, "io_error", error.strerror or str(error))
