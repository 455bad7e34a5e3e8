"""Vision features in memory over oMLX's own files; the calls of its `VisionFeatureSSDCache`."""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType
from typing import Any, Final, Literal, Self

from vcache_cli.entry import Entry
from vcache_cli.serving.feature_arrays import (
    ArrayKind,
    HeldFeatures,
    array_of,
    hold,
)
from vcache_cli.serving.feature_files import FeatureFiles
from vcache_cli.serving.feature_jobs import FeatureCounters, entry_of, writing
from vcache_cli.serving.write_behind import WriteBehind
from vcache_cli.store.lru import ByteLru
from vcache_cli.store.recency import whole_number
from vcache_cli.targets import omlx_grid, omlx_key

__all__ = ["VisionFeatureSSDCache"]

_GIB: Final = 1024**3
_MAX_PENDING: Final = 32
_MAX_PENDING_BYTES: Final = 512 * 1024**2

_Name = tuple[str, str]
"""Model name, image hash."""


class VisionFeatureSSDCache:
    """Features by (model name, image hash): memory first, then a directory. Any thread.

    A put returns once memory has the features and their bytes are queued for the disk; until they
    are written, a get finds them there. Any number of processes may share the directory, oMLX's
    own among them; each get reads and verifies the file that is there at that moment. To be told
    apart, the texts of a model name and an image hash need only differ as a pair.

    Numpy arrays are copied and come back read-only. A bfloat16 that is read without MLX comes
    back as float32 of the same values.

    Args:
        cache_dir: where oMLX keeps ``vision_features``; None for memory only.
        max_size_bytes: bound on the files; the least recently used go first.
        max_memory_entries: bound on the features in memory; 0 keeps none there.
        max_memory_bytes: bound on their bytes.
        on_full: what a put does while 32 writes or 512 MiB are waiting: ``wait`` for the disk, or
            ``drop`` the write, counted in `drops`. Memory has the features in either case, the
            disk then what it had before.
        arrays: what a get from the disk gives, where not what was put. Files that do not say
            give MLX arrays in a process that has loaded MLX, else numpy.

    Raises:
        TypeError, ValueError: a bound that is no number or below 0, or another word.
        RefusedError, UsageError, AccessError, OSError: `cache_dir` cannot be used.
    """

    def __init__(  # noqa: PLR0913  four are the server's own
        self,
        cache_dir: str | os.PathLike[str] | None = None,
        max_size_bytes: int = 10 * _GIB,
        max_memory_entries: int = 20,
        max_memory_bytes: int = _GIB,
        *,
        on_full: Literal["wait", "drop"] = "wait",
        arrays: ArrayKind | None = None,
    ) -> None:
        leaving: list[HeldFeatures] = []  # evicted under `_order`, freed after it
        self._leaving = leaving
        self._memory: ByteLru[_Name, HeldFeatures] = ByteLru(
            capacity_bytes=max_memory_bytes,
            capacity_entries=max_memory_entries,
            on_evict=lambda _name, held, _size: leaving.append(held),
        )
        self._arrays = arrays
        self._counters = FeatureCounters()
        self._order = threading.RLock()  # memory and queue learn of a put in the same order
        self._loads: dict[_Name, _Load] = {}
        self._closed = False
        self._files: FeatureFiles | None = None
        self._writer: WriteBehind[_Name, Entry] | None = None
        if cache_dir is not None:
            limit_bytes = whole_number("max_size_bytes", max_size_bytes)
            files = FeatureFiles(cache_dir, limit_bytes, self._counters.add)
            self._files = files
            self._writer = WriteBehind(
                writing(files, self._counters),
                max_entries=_MAX_PENDING,
                max_bytes=_MAX_PENDING_BYTES,
                on_full=on_full,
            )
            weakref.finalize(self, self._writer.refuse)  # forgotten, not closed: nothing is lost
        elif on_full not in {"wait", "drop"}:
            raise ValueError(f'`on_full` is "wait" or "drop", got {on_full!r}')

    # --- the server's calls ------------------------------------------------------------------

    def get(self, image_hash: str, model_name: str) -> Any:  # noqa: ANN401  what was put
        """The array, or the list of arrays, that was put; None where there is none.

        Raises:
            TypeError: one of the two is no text.
            ValueError: one of the two is no Unicode text.
        """
        held = None if self._closed else self._find(_checked(image_hash, model_name))
        self._counters.add("misses" if held is None else "hits")
        return None if held is None else held.value()

    def put(self, image_hash: str, model_name: str, features: object, grid: object = None) -> None:
        """Keep features, in place of what was there; after `close` nothing happens.

        Args:
            image_hash: of the image, or of all images of a request.
            model_name: the server's text for the model.
            features: a numpy or MLX array, already evaluated, or a list of them.
            grid: (t, h, w) in patches before merging, where the model has one.

        Raises:
            TypeError, ValueError: an argument that no file could hold; nothing has changed.
        """
        name, held = _checked(image_hash, model_name), hold(features, grid)
        writer = self._writer
        if writer is None:
            if self._keep(name, held):
                self._counters.add("saves")
        else:
            entry = entry_of(name, held)
            reserved = writer.reserve(entry.size_bytes)
            with self._order:
                if reserved:
                    writer.append(name, entry, entry.size_bytes)
                self._keep(name, held)
        self._leaving.clear()

    def get_grid(self, image_hash: str, model_name: str) -> tuple[int, int, int] | None:
        """The (t, h, w) that was put with the features; None where there is none. Counts nothing.

        Raises:
            TypeError, ValueError: as `get`.
        """
        name = _checked(image_hash, model_name)
        if self._closed:
            return None
        held = self._memory.peek(name) or self._pending(name)
        if held is not None:
            return held.grid
        return omlx_grid(self._files.metadata(*name)) if self._files else None

    def close(self) -> None:
        """Write all that was put, then refuse further puts and forget everything in memory."""
        with self._order:
            self._closed = True
        if self._writer is not None:
            self._writer.close()
        if self._files is not None:
            self._files.close()
        self._memory.clear()

    @property
    def stats(self) -> dict[str, int]:
        """A copy of the counts.

        ``hits`` (memory and disk), ``misses``, ``saves`` (features written; kept, where there is
        no directory), ``ssd_loads``, ``errors`` (failed writes, damaged or unreadable files).
        """
        counts = self._counters.copy()
        del counts["evictions"]
        return counts

    # --- beyond them -------------------------------------------------------------------------

    def flush(self, timeout_seconds: float | None = None) -> bool:
        """Wait until what was put before is on the disk; False where that took too long."""
        return self._writer is None or self._writer.flush(timeout_seconds)

    @property
    def drops(self) -> int:
        """Writes refused, because the queue was full or the cache closed."""
        return self._writer.drops if self._writer else 0

    @property
    def evictions(self) -> int:
        """Files removed to make room."""
        return self._counters.copy()["evictions"]

    @property
    def size_bytes(self) -> int:
        """Bytes of all entries in the directory now, whoever wrote them; 0 without one."""
        return self._files.size_bytes() if self._files else 0

    @property
    def memory_bytes(self) -> int:
        """Bytes of the features in memory, those still to be written not counted."""
        return self._memory.total_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- inside ------------------------------------------------------------------------------

    def _find(self, name: _Name) -> HeldFeatures | None:
        held = self._memory.get(name) or self._pending(name)
        if held is None:
            return self._load(name)
        if self._files is not None:
            self._files.used(omlx_key(*name))
        return held

    def _pending(self, name: _Name) -> HeldFeatures | None:
        entry = self._writer.pending(name) if self._writer else None
        return None if entry is None else array_of(entry, self._arrays)

    def _load(self, name: _Name) -> HeldFeatures | None:
        if self._files is None:
            return None
        with self._order:
            load = self._loads.setdefault(name, _Load())
            load.readers += 1
        held = None
        try:
            entry = self._files.load(*name)
            if entry is not None:
                held = array_of(entry, self._arrays)
                self._counters.add("ssd_loads")
        finally:
            self._landed(name, load, held)
        return held

    def _landed(self, name: _Name, load: _Load, held: HeldFeatures | None) -> None:
        """Remember what was read, unless something newer was put meanwhile."""
        with self._order:
            load.readers -= 1
            if self._loads.get(name) is load:
                if held is not None:
                    self._keep(name, held, ends_loads=False)
                if not load.readers:
                    del self._loads[name]
        self._leaving.clear()

    def _keep(self, name: _Name, held: HeldFeatures, *, ends_loads: bool = True) -> bool:
        with self._order:
            if self._closed:
                return False
            if ends_loads:
                self._loads.pop(name, None)
            before = self._memory.remove(name)  # one that does not fit leaves nothing stale
            if before is not None:
                self._leaving.append(before)
            self._memory.put(name, held, held.size_bytes)
            return True


class _Load:
    """Gets that read a file at this moment."""

    __slots__ = ("readers",)

    def __init__(self) -> None:
        self.readers = 0


def _checked(image_hash: object, model_name: object) -> _Name:
    for argument, value in (("image_hash", image_hash), ("model_name", model_name)):
        if not isinstance(value, str):
            raise TypeError(f"`{argument}` is a text, got {type(value).__name__}")
    return str(model_name), str(image_hash)
