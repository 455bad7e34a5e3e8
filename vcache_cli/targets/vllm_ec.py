"""vLLM's encoder cache on disk, as its example connector lays it out."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.digest import digest_json
from vcache_cli.entry import Entry
from vcache_cli.errors import EncodeError, InvalidEntryError
from vcache_cli.header import HeaderLimits
from vcache_cli.items import Stage
from vcache_cli.targets.values import beside, stored

if TYPE_CHECKING:
    from vcache_cli.items import Features, Pixels
    from vcache_cli.protocols import Evidence, KeyFrom, Unit
    from vcache_cli.recipe import Recipe
    from vcache_cli.tensor import Tensor

__all__ = ["VllmEcLayout", "VllmEcTarget"]

_FILE: Final = "encoder_cache.safetensors"
_TENSOR: Final = "ec_cache"
_FEATURES: Final = "features"
_DEEP: Final = "deepstack_"
_TELLING: Final = re.compile(
    r"[0-9a-f]{64}|[0-9a-f]{128}|[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", re.ASCII
)
"""A digest by any of the server's hashers, or a UUID."""
_NO_IDS: Final = frozenset({"", ".", "..", ".vcache"})
_MAX_ID_BYTES: Final = 255
"""Longest name of a directory."""
_LIMITS: Final = HeaderLimits(
    max_header_bytes=64 * 1024,
    max_tensors=1,
    min_tensors=1,
    max_ndim=2,
    min_ndim=2,
    alignment_bytes=1,  # the library pads to 8 bytes, older ones did not
    name_pattern=_TENSOR,
    dtypes=frozenset({"BF16", "F16", "F32", "F64"}),
)


@dataclass(frozen=True, slots=True)
class VllmEcLayout:
    """``<id>/encoder_cache.safetensors`` with one tensor ``ec_cache``; holds nothing.

    The id is what the server calls `mm_hash`: a digest, or the text that a client gave as `uuid`.
    It is the key, as it is. One with a ``/`` lies deeper and is no entry here.
    """

    @property
    def limits(self) -> HeaderLimits:
        """One tensor of two dimensions: the server checks nothing and fails on another."""
        return _LIMITS

    @property
    def checksum_field(self) -> str | None:
        """Files of the server carry none, and metadata is not read: structure only."""
        return None

    @property
    def checksum_required(self) -> bool:
        """There is none."""
        return False

    @property
    def shards(self) -> tuple[str, ...] | None:
        """Any directory may hold an entry."""
        return None

    def path_of(self, key: str) -> str:
        """The file in the directory of that name.

        Raises:
            ValueError: not the name of a directory.
        """
        return f"{self.directory_of(key)}/{_FILE}"

    def key_of(self, path: str) -> str | None:
        """The directory's name, for its file of the one name that counts."""
        directory, _, name = path.partition("/")
        return directory if name == _FILE and _is_id(directory) else None

    def directory_of(self, key: str) -> str:
        """The key itself.

        Raises:
            ValueError: not the name of a directory.
        """
        if not _is_id(key):
            raise ValueError(f"{key[:80]!r} is not an id: it does not name a directory")
        return key

    def is_telling(self, directory: str) -> bool:
        """True for a digest or a UUID; a client's own ids may be anything."""
        return _TELLING.fullmatch(directory) is not None

    def pack(self, entry: Entry) -> tuple[dict[str, str], Mapping[str, Tensor]]:
        """The tensor alone.

        Raises:
            InvalidEntryError: not exactly one tensor `ec_cache` of two dimensions.
        """
        _check(entry.tensors)
        return {}, entry.tensors

    def unpack(
        self, path: str, metadata: Mapping[str, str], tensors: Mapping[str, Tensor]
    ) -> Entry:
        """The entry; its file says nothing of itself but shape and dtype.

        Raises:
            InvalidEntryError: see `Layout.unpack`.
        """
        key = self.key_of(path)
        if key is None:
            raise InvalidEntryError(f"`{path}` is no place of an entry", finding="key_mismatch")
        if tensors:
            _check(tensors)
        return Entry(key, Stage.FEATURES, tensors, metadata=metadata)


_LAYOUT: Final = VllmEcLayout()


@dataclass(frozen=True, slots=True)
class VllmEcTarget:
    """vLLM's `ECExampleConnector`, of which a client names its pictures by `uuid`. Pure.

    The server takes a client's `uuid` for its own hash, verbatim, as long as the request has no
    processor or media options of its own. It says nothing of the model: each has a root.
    """

    name: str = "vllm-ec"
    key_from: KeyFrom = "digest"
    unit: Unit = "item"
    profile: str | None = None
    layout: VllmEcLayout = _LAYOUT
    output: str = "projected"
    backend: str = "torch"
    """The server computes with torch."""

    def key(self, recipe: Recipe, evidence: Evidence) -> str:
        """The `uuid` that a client gives: SHA-256 of source and recipe, 64 hex."""
        value = {"source": evidence.source_sha256, "recipe": recipe.digest}
        return digest_json({"target": self.name, **value})

    def store_options(self, recipe: Recipe) -> dict[str, Any]:
        """The model's family, weights and form: no file of the server says whose it is.

        How pictures are prepared is in the `uuid` alone, so that one model's recipes share a root.
        """
        encoder = recipe.encoder
        if encoder is None:
            return {}
        return {
            "family": recipe.family,
            "fingerprint": encoder.fingerprint,
            "output": encoder.output,
            "stored_dtype": encoder.stored_dtype,
        }

    def tensors(self, recipe: Recipe, value: Pixels | Features) -> dict[str, Tensor]:
        """`ec_cache` (num_tokens, width), DeepStack features beside the others.

        Raises:
            EncodeError: not of two dimensions, or infinite in the stored dtype.
        """
        dtype = recipe.encoder.stored_dtype if recipe.encoder else None
        deep = [name for name in value.tensors if name.startswith(_DEEP)]
        deep.sort(key=lambda name: int(name.removeprefix(_DEEP)))
        parts = [value.tensors[name] for name in (_FEATURES, *deep)]
        if any(part.ndim != 2 for part in parts):
            raise EncodeError("vLLM takes features of two dimensions", kind="output")
        return {_TENSOR: stored(_TENSOR, beside(parts), dtype)}


def _is_id(text: str) -> bool:
    if text.casefold() in _NO_IDS or "/" in text or "\0" in text:  # a Mac folds case
        return False
    try:
        return len(os.fsencode(text)) <= _MAX_ID_BYTES
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte
        return False


def _check(tensors: Mapping[str, Tensor]) -> None:
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    if set(shapes) != {_TENSOR} or len(shapes[_TENSOR]) != 2:
        raise InvalidEntryError(f"expected one tensor `{_TENSOR}` of 2 dimensions, found {shapes}")
