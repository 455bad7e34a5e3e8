"""Pixels that outlive the process: what `vcache warm --stage pixels` wrote, under its own keys."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vcache_cli.digest import digest_bytes
from vcache_cli.entry import Entry, Provenance
from vcache_cli.errors import VcacheError
from vcache_cli.items import Kind, Stage
from vcache_cli.targets import native_key
from vcache_cli.tensor import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vcache_cli.protocols import Tier
    from vcache_cli.recipe import Recipe

__all__ = ["PixelKey", "PixelStore", "pixel_key"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PixelKey:
    """Names the pixels of a source under a recipe, wherever they are cached."""

    entry_key: str
    """Key of the entry in a native store, 64 hex."""
    source_sha256: str
    """Of the source's encoded bytes, 64 hex; an entry cannot be written without it."""


def pixel_key(data: bytes | bytearray | memoryview, recipe: Recipe) -> PixelKey:
    """The key under which `vcache warm --stage pixels` files a picture. Decodes nothing.

    Args:
        data: the picture as it came: its encoded bytes, whole.
        recipe: profile and resolved settings, such as
            ``vcache.load_recipe(model, WarmOptions(stage=Stage.PIXELS)).recipe``; load it once.

    Raises:
        ValueError: a recipe for features, or for another target than ``native``.
    """
    if recipe.stage is not Stage.PIXELS or recipe.target != "native":
        raise ValueError(
            f"`recipe` is for stage `{recipe.stage.value}` of target `{recipe.target}`, "
            "expected stage `pixels` of target `native`"
        )
    source_sha256 = digest_bytes(data)
    return PixelKey(native_key(Stage.PIXELS, source_sha256, recipe.digest), source_sha256)


class PixelStore:
    """The persistent side of a cache of pixels. Any thread.

    Payloads are ``dict[str, ndarray]``, by the names of the server's processor. Whoever gives a
    recipe says that the server preprocesses by it: both then write the same pixels under a key.

    Args:
        tier: holds the entries; such as ``vcache.open_store(path, mode="w")``.
        recipe: see `pixel_key`.
        kind: of the sources, noted in each entry written.
        read_only: write nothing.

    Raises:
        ValueError: see `pixel_key`.
    """

    def __init__(
        self, tier: Tier, recipe: Recipe, *, kind: Kind = Kind.IMAGE, read_only: bool = False
    ) -> None:
        pixel_key(b"", recipe)  # refuses what gives no keys
        self.tier = tier
        self.recipe = recipe
        self.kind = kind
        self.read_only = read_only
        self._described = recipe.as_json()
        self._lock = threading.Lock()
        self._failures = 0

    def __reduce__(self) -> tuple[object, ...]:
        return _reopened, (self.tier, self.recipe, self.kind, self.read_only)

    @property
    def failures(self) -> int:
        """Payloads that could not be written; the first one is logged."""
        return self._failures

    def key_of(self, data: bytes | bytearray | memoryview) -> PixelKey:
        """`pixel_key` under this store's recipe."""
        return pixel_key(data, self.recipe)

    def get(self, key: object) -> dict[str, NDArray[Any]] | None:
        """The pixels, read-only and verified; None where they are absent or damaged.

        Args:
            key: a `PixelKey`, or an entry key as text; any other is a miss.
        """
        name = _entry_key(key)
        entry = self.tier.get(name) if name is not None else None
        if entry is None or name is None or entry.stage is not Stage.PIXELS:
            return None
        touch = getattr(self.tier, "touch", None)
        if touch is not None:
            touch(name)
        return {name: entry.numpy(name) for name in entry.tensors}

    def contains(self, key: object) -> bool:
        """True where the entry is there; says nothing of damage."""
        name = _entry_key(key)
        return name is not None and self.tier.contains(name)

    def put(self, key: object, payload: object) -> bool:
        """Write the pixels; False where that cannot be done.

        That is where `key` is no `PixelKey`, where `payload` is no dict of arrays that a tensor
        file can hold, and where writing failed: a server goes on without its disk.
        """
        if self.read_only or not isinstance(key, PixelKey):
            return False
        tensors = _tensors(payload)
        if tensors is None:
            return False
        known = Provenance(key.source_sha256, self._described, kind=self.kind)
        try:
            self.tier.put(Entry(key.entry_key, Stage.PIXELS, tensors, known))
        except (VcacheError, OSError) as error:
            self._note_failure(error)
            return False
        return True

    def _note_failure(self, error: Exception) -> None:
        with self._lock:
            self._failures += 1
            first = self._failures == 1
        if first:
            _log.warning("pixels are not kept on disk: %s", error)


def _reopened(tier: Tier, recipe: Recipe, kind: Kind, read_only: bool) -> PixelStore:  # noqa: FBT001
    """What a pickled one is in the other process."""
    return PixelStore(tier, recipe, kind=kind, read_only=read_only)


def _entry_key(key: object) -> str | None:
    if isinstance(key, PixelKey):
        return key.entry_key
    return key if isinstance(key, str) else None


def _tensors(payload: object) -> dict[str, Tensor] | None:
    """The arrays of a payload as tensors; None where it is anything else."""
    if type(payload) is not dict or not payload:
        return None
    tensors: dict[str, Tensor] = {}
    for name, array in payload.items():
        if not isinstance(name, str) or type(array) is not np.ndarray:
            return None
        try:
            tensors[name] = Tensor.from_numpy(array)
        except (ValueError, TypeError):  # a dtype that has no name in a tensor file
            return None
    return tensors
