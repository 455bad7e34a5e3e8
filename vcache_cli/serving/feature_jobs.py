"""What a feature cache hands to its writer, and what both count."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from vcache_cli.entry import Entry
from vcache_cli.items import Stage
from vcache_cli.serving.feature_arrays import ARRAYS_FIELD, HeldFeatures, tensors_of
from vcache_cli.targets import omlx_key

if TYPE_CHECKING:
    from vcache_cli.serving.feature_files import FeatureFiles

__all__ = ["FeatureCounters", "entry_of", "writing"]


def entry_of(name: tuple[str, str], held: HeldFeatures) -> Entry:
    """What the file of (model name, image hash) holds; the calling thread takes the bytes.

    Raises:
        ValueError: oMLX's files have no place for such a name or dtype.
    """
    model_name, image_hash = name
    if not (model_name and image_hash):
        raise ValueError("`image_hash` and `model_name` are not empty")
    metadata = {"model_name": model_name, "image_hash": image_hash, ARRAYS_FIELD: held.kind}
    if held.grid is not None:
        metadata["grid_thw"] = json.dumps(held.grid)
    key = omlx_key(model_name, image_hash)
    return Entry(key, Stage.FEATURES, tensors_of(held), metadata=metadata)


class FeatureCounters:
    """Exact counts, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        names = ("hits", "misses", "saves", "ssd_loads", "errors", "evictions")
        self._counts = dict.fromkeys(names, 0)

    def add(self, name: str) -> None:
        """One more."""
        with self._lock:
            self._counts[name] += 1

    def copy(self) -> dict[str, int]:
        """All counts of one moment."""
        with self._lock:
            return dict(self._counts)


def writing(
    files: FeatureFiles, counters: FeatureCounters
) -> Callable[[tuple[str, str], Entry], None]:
    """What the writer's thread does. It meets no MLX array, nor the cache, so that this can end."""

    def write(_name: tuple[str, str], entry: Entry) -> None:
        if files.write(entry):
            counters.add("saves")

    return write
