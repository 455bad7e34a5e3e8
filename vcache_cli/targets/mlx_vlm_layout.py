"""Files of features for mlx-vlm: our own, since mlx-vlm itself writes none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vcache_cli.digest import DIGEST_LENGTH, canonical_json, digest_json
from vcache_cli.entry import Entry, creation_time
from vcache_cli.errors import InvalidEntryError
from vcache_cli.header import HeaderLimits
from vcache_cli.items import Stage, display_path
from vcache_cli.targets.fields import HEX, provenance_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vcache_cli.tensor import Tensor

__all__ = ["MlxVlmLayout", "mlx_vlm_key", "part_number"]

_FORMAT: Final = "1"
_ENDING: Final = ".mlx-vlm.safetensors"
_PATH: Final = re.compile(r"([0-9a-f]{2})/(\1[0-9a-f]{62})\.mlx-vlm\.safetensors")
_FEATURES: Final = re.compile(r"features(\.[0-9]{1,6})?")
_SHARDS: Final = tuple(f"{number:02x}" for number in range(256))
_LIMITS: Final = HeaderLimits(max_header_bytes=1024 * 1024, max_tensors=4096, min_tensors=1)
"""A request may have many pictures, and a picture many tiles, each an array of its own."""


def mlx_vlm_key(processed: str, encoder: str) -> str:
    """The key of what the server calls `processed`, under an encoder's fingerprint: 64 hex.

    >>> mlx_vlm_key("processed:1", "f" * 64)[:16]
    'c6d4a80d1b529b0c'
    """
    return digest_json({"format": 1, "processed": processed, "encoder": encoder})


@dataclass(frozen=True, slots=True)
class MlxVlmLayout:
    """``ab/<64 hex>.mlx-vlm.safetensors``, metadata under ``vcache.``; holds nothing."""

    @property
    def limits(self) -> HeaderLimits:
        """As the native ones, for many more arrays."""
        return _LIMITS

    @property
    def checksum_field(self) -> str | None:
        """Each file carries its checksum."""
        return "vcache.xxh3_128"

    @property
    def checksum_required(self) -> bool:
        """Always: nobody else writes such files."""
        return True

    @property
    def shards(self) -> tuple[str, ...]:
        """The 256 directories by the key's first two digits."""
        return _SHARDS

    def path_of(self, key: str) -> str:
        """The key's shard and file.

        Raises:
            ValueError: not 64 lowercase hexadecimal digits.
        """
        if len(key) != DIGEST_LENGTH or key.strip(HEX):
            raise ValueError(f"{key[:80]!r} is not a key: 64 lowercase hexadecimal digits")
        return f"{key[:2]}/{key}{_ENDING}"

    def key_of(self, path: str) -> str | None:
        """The key in the file's name, where it lies in its shard."""
        match = _PATH.fullmatch(path)
        return match[2] if match else None

    def pack(self, entry: Entry) -> tuple[dict[str, str], Mapping[str, Tensor]]:
        """The parts of the key and the provenance as metadata; the tensors as they are.

        Raises:
            InvalidEntryError: the entry does not name the parts of its key, or holds no features.
        """
        _check_tensors(entry.tensors)
        known = entry.provenance
        fields = {
            "format": _FORMAT,
            "key": entry.key,
            "stage": Stage.FEATURES.value,
            **{name: _part(entry, name) for name in ("processed", "encoder")},
            "created": known.created or creation_time(),
            "kind": known.kind.value if known.kind else None,
            "model": display_path(known.model) if known.model else None,
            "num_tokens": str(known.num_tokens) if known.num_tokens is not None else None,
            "source_sha256": known.source_sha256,
            "recipe": canonical_json(known.recipe).decode("ascii") if known.recipe else None,
            "versions": canonical_json(known.versions).decode("ascii") if known.versions else None,
        }
        metadata = {f"vcache.{name}": value for name, value in fields.items() if value is not None}
        _check_key(entry.key, metadata)
        return metadata, entry.tensors

    def unpack(
        self, path: str, metadata: Mapping[str, str], tensors: Mapping[str, Tensor]
    ) -> Entry:
        """The entry, its key derived anew from the parts and compared with the file's name.

        Raises:
            InvalidEntryError: see `Layout.unpack`.
        """
        key = self.key_of(path)
        if key is None:
            raise InvalidEntryError(f"`{path}` is no place of an entry", finding="key_mismatch")
        if metadata.get("vcache.format") != _FORMAT:
            raise InvalidEntryError(f"entry format {_FORMAT} expected")
        _check_key(key, metadata)
        if tensors:
            _check_tensors(tensors)
        return Entry(key, Stage.FEATURES, tensors, provenance_of(metadata), metadata)


def _part(entry: Entry, name: str) -> str | None:
    """A part of the key, of an entry that is new or was read."""
    return entry.metadata.get(name) or entry.metadata.get(f"vcache.{name}")


def part_number(name: str) -> int:
    """The N of `features.N`; -1 where there is none."""
    last = name.rpartition(".")[2]
    return int(last) if last.isdecimal() else -1


def _check_tensors(tensors: Mapping[str, Tensor]) -> None:
    if not tensors or not all(_FEATURES.fullmatch(name) for name in tensors):
        raise InvalidEntryError(f"expected `features` or `features.N`, found {sorted(tensors)[:4]}")
    alone = "features" in tensors
    if len(tensors) > 1 and (
        alone or {part_number(name) for name in tensors} != set(range(len(tensors)))
    ):
        raise InvalidEntryError("expected `features` alone, or `features.0` to the last")


def _check_key(key: str, metadata: Mapping[str, str]) -> None:
    processed, encoder = metadata.get("vcache.processed"), metadata.get("vcache.encoder")
    if processed is None or encoder is None:
        raise InvalidEntryError("metadata does not name the parts of the key")
    if metadata.get("vcache.key") != key or mlx_vlm_key(processed, encoder) != key:
        raise InvalidEntryError(
            "the key is not that of its name and encoder", finding="key_mismatch"
        )
