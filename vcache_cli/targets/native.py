"""The native target: vcache's own keys and files, as store/FORMAT.md states them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.digest import canonical_json, digest_bytes
from vcache_cli.entry import Entry, Provenance, creation_time
from vcache_cli.errors import InvalidEntryError
from vcache_cli.header import HeaderLimits
from vcache_cli.items import Features, Pixels, Stage, display_path
from vcache_cli.levels import LevelTensor
from vcache_cli.targets.fields import count_of, kind_of
from vcache_cli.targets.native_levels import AXIS_FIELD, STRIDE_FIELD, level_fields, with_levels
from vcache_cli.targets.values import stored
from vcache_cli.tensor import Tensor

if TYPE_CHECKING:
    from vcache_cli.protocols import Evidence, KeyFrom, Unit
    from vcache_cli.recipe import Recipe

__all__ = ["NativeLayout", "NativeTarget", "native_key"]

_FORMAT: Final = "1"
_LEVELS_FORMAT: Final = "2"
"""Of entries with levels and tables: a reader that knows none must not take levels for pixels."""
_is_key: Final = re.compile(r"[0-9a-f]{64}").fullmatch
_PATH: Final = re.compile(r"([0-9a-f]{2})/(\1[0-9a-f]{62})\.safetensors")
_CLIP_FIELDS: Final = ("exact", "frame_seconds")
"""What is said of a clip beside its tensors; pictures have neither."""
_STAGES: Final = {stage.value: stage for stage in Stage}


def native_key(stage: Stage, source_sha256: str, recipe_sha256: str) -> str:
    """The key of a source under a recipe: SHA-256 of canonical JSON, 64 hex.

    >>> native_key(Stage.PIXELS, "0" * 64, "f" * 64)[:16]
    '9e887090df3ca377'
    """
    return _key(stage, source_sha256, recipe_sha256)  # a StrEnum: `.value` is slow


def _key(stage: str, source_sha256: str, recipe_sha256: str) -> str:
    # Spelled out: all parts are hexadecimal or names, and a get derives the key anew each time.
    hasher = _key_hasher(recipe_sha256).copy()
    hasher.update(f'{source_sha256}","stage":"{stage}"}}'.encode())  # a hostile one is any text
    return hasher.hexdigest()


def _keys(stage: str, sources_sha256: Sequence[str], recipe_sha256: str) -> list[str]:
    copy, tail = _key_hasher(recipe_sha256).copy, f'","stage":"{stage}"}}'
    keys = []
    for source_sha256 in sources_sha256:
        hasher = copy()
        hasher.update(f"{source_sha256}{tail}".encode())
        keys.append(hasher.hexdigest())
    return keys


@lru_cache(maxsize=256)
def _key_hasher(recipe_sha256: str) -> hashlib._Hash:
    """Fed with how all keys under a recipe begin; to be copied."""
    return hashlib.sha256(f'{{"format":1,"recipe":"{recipe_sha256}","source":"'.encode("ascii"))


@dataclass(frozen=True, slots=True)
class NativeLayout:
    """``ab/<64 hex>.safetensors``, metadata under ``vcache.``; holds nothing."""

    @property
    def limits(self) -> HeaderLimits:
        """The defaults: what our own files need."""
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
        if not _is_key(key):
            raise ValueError(f"{key[:80]!r} is not a key: 64 lowercase hexadecimal digits")
        return f"{key[:2]}/{key}.safetensors"

    def paths_of(self, keys: Sequence[str]) -> list[str]:
        """See `ManyPaths`."""
        digits = "".join(keys)
        if {*map(len, keys)} - {64} or bytes.fromhex(digits).hex() != digits:
            raise ValueError("not a key: 64 lowercase hexadecimal digits")
        return [f"{key[:2]}/{key}.safetensors" for key in keys]

    def key_of(self, path: str) -> str | None:
        """The key in the file's name, where it lies in its shard."""
        match = _PATH.fullmatch(path)
        return match[2] if match else None

    def pack(self, entry: Entry) -> tuple[dict[str, str], Mapping[str, Tensor]]:
        """Provenance as metadata, every value text; the tensors as they are, levels with tables.

        An entry without `created` gets the present time, or SOURCE_DATE_EPOCH.

        Raises:
            InvalidEntryError: the source is not known, so no key can be derived.
        """
        known = entry.provenance
        if known.source_sha256 is None:
            raise InvalidEntryError("a native entry needs the digest of its source")
        recipe = canonical_json(known.recipe)
        levels = level_fields(entry.tensors)
        fields = {
            **levels,
            "format": _LEVELS_FORMAT if levels else _FORMAT,
            "key": entry.key,
            "stage": entry.stage.value,
            "source_sha256": known.source_sha256,
            "recipe": recipe.decode("ascii"),
            "recipe_sha256": digest_bytes(recipe),
            "created": known.created or creation_time(),
            "kind": known.kind.value if known.kind else None,
            # A folder's name may hold bytes that are no text, which a header cannot.
            "model": display_path(known.model) if known.model else None,
            "num_tokens": str(known.num_tokens) if known.num_tokens is not None else None,
            "versions": canonical_json(known.versions).decode("ascii") if known.versions else None,
        }
        metadata = {f"vcache.{name}": value for name, value in fields.items() if value is not None}
        for name in (f"vcache.{field}" for field in _CLIP_FIELDS):
            if name in entry.metadata:
                metadata[name] = entry.metadata[name]
        return metadata, entry.parts if levels else entry.tensors

    def unpack(
        self, path: str, metadata: Mapping[str, str], tensors: Mapping[str, Tensor]
    ) -> Entry:
        """The entry, its key derived anew from the parts and compared with the file's name.

        Raises:
            InvalidEntryError: see `Layout.unpack`.
        """
        try:
            key, source_sha256 = metadata["vcache.key"], metadata["vcache.source_sha256"]
            recipe_sha256, created = metadata["vcache.recipe_sha256"], metadata["vcache.created"]
            stage_name = metadata["vcache.stage"]
            stage = _STAGES[stage_name]
            recipe = _recipe(metadata["vcache.recipe"], recipe_sha256)
            version = metadata["vcache.format"]
        except KeyError as error:
            raise InvalidEntryError(f"metadata has no valid {error}") from error
        if version == _LEVELS_FORMAT:
            tensors = _with_levels(stage, metadata, tensors)
        elif version != _FORMAT:
            raise InvalidEntryError(
                f"entry format {_FORMAT} or {_LEVELS_FORMAT} expected, found {version[:16]!r}"
            )
        if key != _key(stage_name, source_sha256, recipe_sha256):
            raise _mismatch("the key is not that of its stage, source and recipe")
        if path != f"{key[:2]}/{key}.safetensors":
            raise _mismatch(f"`{path}` holds the entry of key {key}")
        provenance = Provenance(
            source_sha256,
            recipe,
            metadata.get("vcache.model"),
            kind_of(metadata.get("vcache.kind")),
            count_of(metadata.get("vcache.num_tokens")),
            created,
            _versions(metadata.get("vcache.versions", "{}")),
        )
        return Entry(key, stage, tensors, provenance, metadata)


@dataclass(frozen=True, slots=True)
class NativeTarget:
    """Keys by source digest and recipe; the store of vcache's own library and drop-ins."""

    name: str = "native"
    key_from: KeyFrom = "digest"
    takes_clips: bool = True
    unit: Unit = "item"
    profile: str | None = None
    layout: NativeLayout = NativeLayout()

    def key(self, recipe: Recipe, evidence: Evidence) -> str:
        """`native_key` of the recipe's stage."""
        return native_key(recipe.stage, evidence.source_sha256, recipe.digest)

    def keys(self, recipe: Recipe, digests: Sequence[str]) -> list[str]:
        """`key` of each content."""
        return _keys(recipe.stage, digests, recipe.digest)

    def tensors(self, recipe: Recipe, value: Pixels | Features) -> dict[str, Tensor]:
        """Pixels as they are; float32 features in the recipe's stored dtype.

        Raises:
            EncodeError: a feature that is infinite in that dtype.
        """
        if isinstance(value, Pixels) and value.tables:
            return self.level_tensors(recipe, value)
        dtype = recipe.encoder.stored_dtype if recipe.encoder else None
        return {name: stored(name, array, dtype) for name, array in value.tensors.items()}

    def level_tensors(self, recipe: Recipe, pixels: Pixels) -> dict[str, Tensor]:
        """As `tensors`; what has a table is written as levels, and read as what they stand for."""
        return {
            name: LevelTensor.of(array, pixels.tables[name])
            if name in pixels.tables
            else Tensor.from_numpy(array)
            for name, array in pixels.tensors.items()
        }


_LIMITS: Final = HeaderLimits()
_SHARDS: Final = tuple(f"{number:02x}" for number in range(256))


def _with_levels(
    stage: Stage, metadata: Mapping[str, str], tensors: Mapping[str, Tensor]
) -> Mapping[str, Tensor]:
    if stage is not Stage.PIXELS:
        raise InvalidEntryError(f"entries of stage `{stage.value}` have no levels")
    axis, stride = (metadata.get(f"vcache.{name}") for name in (AXIS_FIELD, STRIDE_FIELD))
    return with_levels(axis, stride, tensors, max_bytes=_LIMITS.max_file_bytes)


def _mismatch(message: str) -> InvalidEntryError:
    return InvalidEntryError(message, finding="key_mismatch")


@lru_cache(maxsize=256)
def _recipe(text: str, recipe_sha256: str) -> Mapping[str, Any]:
    """The recipe in `text`, checked once and shared: all entries of a model have the same."""
    value = _object(text, "recipe")
    try:
        canonical = canonical_json(value)
    except ValueError as error:  # a number that Python reads and JSON does not have
        raise InvalidEntryError(f"the recipe is not JSON: {error}") from error
    if canonical != text.encode("utf-8"):
        raise InvalidEntryError("the recipe is not canonical JSON")
    if digest_bytes(canonical) != recipe_sha256:
        raise _mismatch("the recipe does not have the digest beside it")
    return value


@lru_cache(maxsize=256)
def _versions(text: str) -> Mapping[str, str]:
    value = _object(text, "versions")
    if not all(type(item) is str for item in value.values()):
        raise InvalidEntryError("the versions are not strings")
    return value


def _object(text: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidEntryError(f"the {name} are not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidEntryError(f"the {name} are not a JSON object")
    return value
