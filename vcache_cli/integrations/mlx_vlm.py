"""A drop-in for mlx-vlm's `VisionFeatureCache` whose entries outlive the process.

::

    from mlx_vlm import generate, load
    from vcache_cli.integrations.mlx_vlm import PersistentVisionFeatureCache

    model, processor = load(path)
    with PersistentVisionFeatureCache("features", model) as cache:
        cache.attach()  # so that models which never ask for a cache fill it too
        generate(model, processor, prompt, image=[picture], vision_cache=cache)
"""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.encode.mlx_vlm import check_version, fingerprint
from vcache_cli.errors import AccessError, InvalidEntryError, VcacheError
from vcache_cli.integrations.features import from_entry, size_bytes, to_entry
from vcache_cli.integrations.tap import tap
from vcache_cli.store import DiskStore, StoreRoot, create_meta
from vcache_cli.store.lru import ByteLru
from vcache_cli.targets.mlx_vlm import MlxVlmTarget
from vcache_cli.targets.mlx_vlm_layout import mlx_vlm_key

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Self

    from vcache_cli.store.pool import EntryWriter

__all__ = ["MEMORY_BYTES", "CacheCounts", "PersistentVisionFeatureCache", "open_features"]

MEMORY_BYTES: Final = 512 * 1024**2
"""Of features, unless the caller says otherwise."""
_NAMED: Final = "processed:"
"""How names begin that mlx-vlm makes of content; a path or an address names no content."""


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """What became of the lookups so far."""

    memory_hits: int = 0
    store_hits: int = 0
    misses: int = 0
    puts: int = 0
    failed_puts: int = 0
    """Features that are in memory only: the store could not take them."""

    @property
    def hit_rate(self) -> float:
        """Share of the lookups that hit, 0..1; 0 of none."""
        hits = self.memory_hits + self.store_hits
        return hits / (hits + self.misses) if hits + self.misses else 0.0

    @classmethod
    def total(cls, counts: Iterable[CacheCounts]) -> CacheCounts:
        """The sums of several."""
        rows = [[getattr(each, name) for name in cls.__slots__] for each in counts]
        return cls(*(sum(column) for column in zip(*rows, strict=True)))


def open_features(path: str | os.PathLike[str]) -> DiskStore:
    """The store of target `mlx-vlm` at `path`, made where there is none, open for writing.

    One that is there and may not be written, such as a read-only mount, is open for reading.

    Raises:
        UsageError: it is a store of another target.
        NotAStoreError, FormatTooNewError, RefusedError: the folder is not ours to write.
        AccessError, StoreFullError, LockBusyError: it cannot be made, or not be read.
    """
    target, folder = MlxVlmTarget(), Path(path).absolute()
    root = StoreRoot(folder, target.layout, create_meta(folder, target=target.name))
    try:
        return DiskStore(root, mode="w")
    except AccessError:
        return DiskStore(root, mode="r")


class PersistentVisionFeatureCache:
    """Memory before a store, by the names that mlx-vlm's `processed_image_key` gives.

    Entries are bound to the weights and settings of the model's vision part, so that several
    models can share a store. What mlx-vlm names by path or address instead of content is kept in
    memory alone. `get` misses where anything is odd, and neither it nor `put` ever raises.

    Args:
        store: a folder, made where there is none; or a store that is open. One that is open for
            reading only is never written.
        model: as mlx-vlm loaded it; None where it comes later, by `bind`.
        memory_bytes: bound on the features held in memory.

    Raises:
        ModelError: mlx-vlm is missing, or of a series that is not supported.
        UsageError, NotAStoreError, AccessError, RefusedError: the folder is no store of ours.
    """

    def __init__(
        self,
        store: DiskStore | str | os.PathLike[str],
        model: Any = None,  # noqa: ANN401  MLX ships no usable types
        *,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._version = check_version()
        self._held = contextlib.ExitStack()
        if not isinstance(store, DiskStore):
            store = self._held.enter_context(open_features(store))
        self._store = store
        self._memory: ByteLru[str, Any] = ByteLru(capacity_bytes=memory_bytes)
        self._writer: EntryWriter | None = None
        if self._store.is_writable:
            self._writer = self._held.enter_context(self._store.writer(threads=1))
        self._lock = threading.Lock()
        self._counts = CacheCounts()
        self._model = model
        self._encoder: str | None = None
        self._missed = ""

    def bind(self, model: Any) -> None:  # noqa: ANN401  as above
        """From now on, the features are those of `model`; what another made is forgotten.

        Reads the weights of its vision part. To be called by the thread that has the model.
        """
        self.clear()
        self._model, self._encoder = model, None
        self._key(_NAMED)

    def attach(self) -> None:
        """Let the model consult this cache wherever its code does not do so by itself.

        Without it, mlx-vlm looks features up for every model, and keeps them for a few.
        """
        tap(self._model, self)

    # --- what mlx-vlm's own cache has ----------------------------------------------------------

    def get(self, image_source: Any) -> Any:  # noqa: ANN401  an array, or a list of arrays
        """Features as the model merges them: one array, or one for each part; None on a miss."""
        name = _name(image_source)
        found, kind = self._memory.get(name), "memory_hits"
        if found is None:
            found, kind = self._read(name), "store_hits"
        if found is not None:
            self._count(kind)
        elif name != self._missed:  # else the same request asks again, through `attach`
            self._count("misses")
        self._missed = name if found is None else ""
        return found

    def put(self, image_source: Any, features: Any) -> None:  # noqa: ANN401  as above
        """Keep features, in memory now and in the store soon."""
        name = _name(image_source)
        self._memory.put(name, features, size_bytes(features))
        key = self._key(name)
        if self._writer is None or key is None:
            return
        try:
            parts = {"processed": name, "encoder": self._encoder or ""}
            entry = to_entry(key, features, parts, model=self._label(), version=self._version)
            self._writer.submit(entry).add_done_callback(
                lambda done: self._count("failed_puts" if done.exception() else "puts")
            )
        except (AttributeError, RuntimeError, TypeError, ValueError, VcacheError):
            self._count("failed_puts")

    def clear(self) -> None:
        """Forget what is in memory; the store keeps its entries."""
        self._memory.clear()

    def __len__(self) -> int:
        """Features held in memory."""
        return len(self._memory)

    def __contains__(self, image_source: Any) -> bool:  # noqa: ANN401  as above
        name = _name(image_source)
        if name in self._memory:
            return True
        key = self._key(name)
        return key is not None and self._store.contains(key)

    # --- beyond it -----------------------------------------------------------------------------

    @property
    def counts(self) -> CacheCounts:
        """The counts now."""
        return self._counts

    def close(self) -> None:
        """Finish what is being written, and let go of the store if it was opened here."""
        self._writer = None
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

    def _read(self, name: str) -> Any:  # noqa: ANN401  as above
        key = self._key(name)
        entry = self._store.get(key) if key else None
        if entry is None:
            return None
        try:
            features = from_entry(entry)
        except (InvalidEntryError, ImportError, MemoryError, RuntimeError, ValueError):
            return None
        self._memory.put(name, features, size_bytes(features))
        return features

    def _key(self, name: str) -> str | None:
        """The entry's key; None for what is kept in memory alone.

        The fingerprint is made at the first use, in the thread that asks: it has the model. A
        model of which none can be made is cached in memory.
        """
        if self._model is None or not name.startswith(_NAMED):
            return None
        if self._encoder is None:
            try:
                self._encoder = fingerprint(self._model)
            except (AttributeError, RuntimeError, TypeError, ValueError):
                self._encoder = ""
        return mlx_vlm_key(name, self._encoder) if self._encoder else None

    def _label(self) -> str | None:
        path = getattr(self._model, "model_path", None)
        return Path(path).name if path else None

    def _count(self, name: str) -> None:
        with self._lock:
            values = {each: getattr(self._counts, each) for each in CacheCounts.__slots__}
            self._counts = CacheCounts(**{**values, name: values[name] + 1})


def _name(image_source: Any) -> str:  # noqa: ANN401  whatever a caller of mlx-vlm's cache gives
    """As mlx-vlm's own cache names a source."""
    if isinstance(image_source, str):
        return image_source
    from mlx_vlm.vision_cache import VisionFeatureCache

    return str(VisionFeatureCache()._make_key(image_source))  # noqa: SLF001  it has no other name
