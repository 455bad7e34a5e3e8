"""Entries of `VisionEmbeddingCache` in a tier that outlives the process."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from vcache_cli.digest import digest_json
from vcache_cli.entry import Entry, Provenance
from vcache_cli.errors import VcacheError
from vcache_cli.items import Stage
from vcache_cli.protocols import Tier
from vcache_cli.serving.embedding_entries import (
    EncodingCacheEntry,
    PixelCacheEntry,
    PixelOnlyCacheEntry,
)
from vcache_cli.targets import native_key
from vcache_cli.tensor import Tensor

__all__ = ["EmbeddingStore", "KeyRule", "native_rule", "pack_numpy"]

EntryT = TypeVar("EntryT", PixelCacheEntry, PixelOnlyCacheEntry, EncodingCacheEntry)
KeyRule: TypeAlias = Callable[[Stage, str], tuple[str, Provenance]]
"""From a stage and the SHA-256 of a source to the tier's key and what an entry says of itself."""

_log = logging.getLogger(__name__)
_COUNTS: Final = frozenset({"first_token"})
_SECONDS: Final = frozenset({"encoding_time", "processing_time"})
_GROUP: Final = "extra_kwargs"
_I64: Final = range(-(2**63), 2**63)


def native_rule(recipe: Mapping[str, Any], *, model: str | None = None) -> KeyRule:
    """The keys of a native store: what `vcache warm` wrote under this recipe is found.

    Args:
        recipe: as JSON, everything that decides the arrays: model, processor, settings.
        model: a label for people.

    Raises:
        TypeError, ValueError: JSON has no form for it.
    """
    recipe_sha256 = digest_json(recipe)

    def rule(stage: Stage, source_sha256: str) -> tuple[str, Provenance]:
        key = native_key(stage, source_sha256, recipe_sha256)
        return key, Provenance(source_sha256, recipe, model)

    return rule


def pack_numpy(array: object) -> Tensor:
    """A numpy array as a tensor.

    Raises:
        TypeError: something else.
        ValueError: a dtype that tensors do not have.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"a numpy array is expected, got {type(array).__name__}")
    return Tensor.from_numpy(array)


class EmbeddingStore:
    """Puts entries that are made of arrays into a tier, and finds them again. Any thread.

    One image is kept under the SHA-256 of its content, as `vcache warm --stage pixels` does. What
    the tier refuses or has no form for stays in memory only. Encodings are of stage ``features``.

    Args:
        tier: such as a `DiskStore` opened for writing; a `put` of its own may return early.
        rule: names the entries, such as `native_rule`.
        pack: from an array of the server's to a tensor.
        unpack: back, such as `Tensor.mlx`.
        read_only: write nothing.
    """

    def __init__(
        self,
        tier: Tier,
        rule: KeyRule,
        *,
        pack: Callable[[Any], Tensor] = pack_numpy,
        unpack: Callable[[Tensor], Any] = Tensor.numpy,
        read_only: bool = False,
    ) -> None:
        self._tier = tier
        self._rule = rule
        self._pack = pack
        self._unpack = unpack
        self._read_only = read_only
        self._lock = threading.Lock()
        self._failures = 0

    @property
    def failures(self) -> int:
        """Entries that could not be written, such as on a full disk; the first one is logged."""
        return self._failures

    def get(self, kind: type[EntryT], stage: Stage, source_sha256: str) -> EntryT | None:
        """The entry; None where it is absent, damaged or holds other tensors than `kind` takes."""
        key = self._rule(stage, source_sha256)[0]
        found = self._tier.get(key)
        if found is None or found.stage is not stage:
            return None
        touch = getattr(self._tier, "touch", None)
        if touch is not None:
            touch(key)
        return self._entry(kind, found.tensors)

    def put(self, entry: EntryT, stage: Stage, source_sha256: str) -> bool:
        """Keep the entry; False where it cannot be kept. Never raises for that."""
        if self._read_only:
            return False
        try:
            tensors = dict(self._tensors(entry))
        except (TypeError, ValueError):  # not made of arrays: memory keeps it
            return False
        key, provenance = self._rule(stage, source_sha256)
        try:
            self._tier.put(Entry(key, stage, tensors, provenance))
        except (VcacheError, OSError) as error:
            with self._lock:
                self._failures += 1
                first = self._failures == 1
            if first:
                _log.warning("an entry is kept in memory only: %s", error)
            return False
        return True

    def _tensors(self, entry: EntryT) -> Iterator[tuple[str, Tensor]]:
        for part in dataclasses.fields(entry):
            value = getattr(entry, part.name)
            if part.name in _COUNTS:
                yield part.name, _count_tensor(value)
            elif part.name in _SECONDS:
                yield part.name, pack_numpy(np.array(float(value)).reshape(1).view(np.uint8))
            elif part.name == _GROUP:
                yield from ((f"{_GROUP}.{name}", self._pack(value[name])) for name in value)
            elif value is not None:
                yield part.name, self._pack(value)

    def _entry(self, kind: type[EntryT], tensors: Mapping[str, Tensor]) -> EntryT | None:
        fields = {part.name: part for part in dataclasses.fields(kind)}
        values: dict[str, Any] = {}
        for name, tensor in tensors.items():
            group, _, member = name.partition(".")
            if group not in fields or bool(member) != (group == _GROUP):
                return None
            if member:
                values.setdefault(_GROUP, {})[member] = self._unpack(tensor)
            elif name in _COUNTS:
                values[name] = int(tensor.numpy())
            elif name in _SECONDS:
                values[name] = float(tensor.numpy().view(np.float64)[0])
            else:
                values[name] = self._unpack(tensor)
        needed = (name for name, part in fields.items() if _is_required(part))
        return kind(**values) if all(name in values for name in needed) else None


def _is_required(part: dataclasses.Field[Any]) -> bool:
    return part.default is dataclasses.MISSING and part.default_factory is dataclasses.MISSING


def _count_tensor(value: object) -> Tensor:
    if not isinstance(value, (int, np.integer)) or int(value) not in _I64:
        raise TypeError(f"a whole number of 64 bits is expected, got {value!r}")
    return pack_numpy(np.array(int(value), np.int64))
