"""oMLX's own vision features: where files lie, what they hold, what the server does with them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.digest import canonical_json
from vcache_cli.entry import Entry, Provenance, creation_seconds
from vcache_cli.errors import InvalidEntryError
from vcache_cli.header import HeaderLimits
from vcache_cli.items import Kind, Stage, display_path
from vcache_cli.quantity import format_time
from vcache_cli.targets.omlx_care import describe_omlx, examine_omlx, keys_of_image
from vcache_cli.targets.omlx_names import omlx_key, omlx_tensor_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from vcache_cli.protocols import ServerView, StoredFile
    from vcache_cli.tensor import Tensor

__all__ = ["OmlxLayout"]

_CHECKSUM: Final = "vcache.xxh3_128"
_PROVENANCE: Final = "vcache.provenance"
_FIELDS: Final = {
    "source_sha256": str,
    "recipe": dict,
    "kind": str,
    "num_tokens": int,
    "versions": dict,
}
"""Types of what `vcache.provenance` may say."""
_MAX_COUNT: Final = 10**18
_KEY: Final = re.compile(r"[0-9a-f]{64}")
_PATH: Final = re.compile(r"([0-9a-f])/(\1[0-9a-f]{63})\.safetensors")
_COUNT: Final = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)
_SHARDS: Final = tuple("0123456789abcdef")
_LIMITS: Final = HeaderLimits(
    max_header_bytes=1024 * 1024,  # one request may have hundreds of images, each a tensor
    max_tensors=4096,
    alignment_bytes=1,  # its files are padded to 8 bytes, those of other writers not at all
    name_pattern=r"feature(_(0|[1-9][0-9]{0,5}))?",
    dtypes=frozenset(
        {"BF16", "BOOL", "F16", "F32", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64"}
    ),
)


@dataclass(frozen=True, slots=True)
class OmlxLayout:
    """``a/<64 hex>.safetensors``; holds nothing.

    A file's name is the SHA-256 of the text that oMLX looks up, so that text cannot be had from
    a name. The key of an entry is therefore the digest; `path_of` takes the text as well, and
    `unpack` compares the digest with what the metadata says. ``vcache.`` metadata, which oMLX
    ignores, is optional, but a file that has any has the checksum.
    """

    @property
    def limits(self) -> HeaderLimits:
        """All that oMLX's own reader takes."""
        return _LIMITS

    @property
    def checksum_field(self) -> str | None:
        """Files of ours carry their checksum."""
        return _CHECKSUM

    @property
    def checksum_required(self) -> bool:
        """Files of oMLX carry none."""
        return False

    @property
    def shards(self) -> tuple[str, ...]:
        """The 16 directories by the key's first digit."""
        return _SHARDS

    def path_of(self, key: str) -> str:
        """The key's shard and file; of a ``<model_name>:<image_hash>`` text, those of its digest.

        Raises:
            ValueError: neither 64 lowercase hexadecimal digits nor such a text.
        """
        if _KEY.fullmatch(key) is None:
            model_name, colon, image_hash = key.rpartition(":")
            if not (model_name and colon and image_hash):
                raise ValueError(f"{key[:80]!r} is not a key: 64 digits or `<model>:<image hash>`")
            key = omlx_key(model_name, image_hash)
        return f"{key[0]}/{key}.safetensors"

    def key_of(self, path: str) -> str | None:
        """The digest in the file's name, where it lies in its shard."""
        match = _PATH.fullmatch(path)
        return match[2] if match else None

    def pack(self, entry: Entry) -> tuple[dict[str, str], Mapping[str, Tensor]]:
        """Names, count and time as oMLX writes them; what else is known below ``vcache.``.

        An entry whose key is a digest says in its metadata which `model_name` and `image_hash`
        it is of; there too, where wanted, are `created_at`, `grid_thw` and ``vcache.`` fields.

        Raises:
            InvalidEntryError: it is not known of which model and image the entry is, or its
                tensors are not those of an array or a list of arrays.
        """
        model_name, image_hash = _names(entry)
        metadata = {
            name: text
            for name, text in entry.metadata.items()
            if name == "grid_thw" or (name.startswith("vcache.") and name != _CHECKSUM)
        }
        if provenance := _provenance_text(entry.provenance):
            metadata[_PROVENANCE] = provenance
        metadata |= {
            "image_hash": image_hash,
            "model_name": model_name,
            "num_tensors": str(_count(entry.tensors)),
            "created_at": entry.metadata.get("created_at") or str(creation_seconds()),
            "vcache.format": "1",  # so that a damaged name of the checksum is noticed
        }
        return metadata, entry.tensors

    def unpack(
        self, path: str, metadata: Mapping[str, str], tensors: Mapping[str, Tensor]
    ) -> Entry:
        """The entry, its key derived anew from model and image and compared with the file's name.

        Raises:
            InvalidEntryError: see `Layout.unpack`.
        """
        model_name, image_hash = metadata.get("model_name"), metadata.get("image_hash")
        if not model_name or not image_hash:
            raise InvalidEntryError("metadata has no `model_name` or no `image_hash`")
        if _CHECKSUM not in metadata and any(name.startswith("vcache.") for name in metadata):
            raise InvalidEntryError(f"no `{_CHECKSUM}` beside other fields", finding="checksum")
        key = omlx_key(model_name, image_hash)
        if path != f"{key[0]}/{key}.safetensors":
            raise InvalidEntryError(
                f"`{path}` holds the entry of {display_path(model_name)}:{image_hash}",
                finding="key_mismatch",
            )
        said = metadata.get("num_tensors", "1")
        if _COUNT.fullmatch(said) is None:
            raise InvalidEntryError(f"`num_tensors` is no number: {said[:16]!r}")
        if tensors and _count(tensors) != int(said):
            raise InvalidEntryError(f"{said} tensors announced, found {', '.join(tensors):.80}")
        return Entry(key, Stage.FEATURES, tensors, _provenance(metadata), metadata)

    def examine(
        self, files: Iterable[StoredFile], *, is_folder: Callable[[str], bool], now: float
    ) -> ServerView:
        """The server's view; see `Examiner.examine`."""
        return examine_omlx(files, is_folder=is_folder, now=now)

    def describe(self, file: StoredFile) -> Mapping[str, Any]:
        """The server's names and grid, and what follows from the tensors' shapes."""
        return describe_omlx(file)

    def keys_of(self, image_hash: str, models: Iterable[str]) -> Mapping[str, str]:
        """The key of the hash itself and those of Unlimited-OCR's modes, for each model."""
        return keys_of_image(image_hash, models)


def _names(entry: Entry) -> tuple[str, str]:
    model_name, _, image_hash = entry.key.rpartition(":")
    if not model_name:
        model_name = entry.metadata.get("model_name", "")
        image_hash = entry.metadata.get("image_hash", "")
        if not image_hash or omlx_key(model_name, image_hash) != entry.key:
            raise InvalidEntryError(
                "an entry needs the `model_name` and `image_hash` of its key in its metadata",
                finding="key_mismatch",
            )
    return model_name, image_hash


def _count(names: Iterable[str]) -> int:
    """Arrays in a file.

    Raises:
        InvalidEntryError: not ``feature`` alone, nor ``feature_0`` and so on without a gap.
    """
    found = set(names)
    wanted = omlx_tensor_names(None if "feature" in found else len(found))
    if not found or found != set(wanted):
        raise InvalidEntryError(f"tensors are not an array or a list: {sorted(found)!r:.80}")
    return len(found)


def _provenance_text(known: Provenance) -> str | None:
    """What oMLX has no field for; None where nothing is known."""
    value: dict[str, Any] = {
        "source_sha256": known.source_sha256,
        "recipe": known.recipe,
        "kind": known.kind.value if known.kind else None,
        "num_tokens": known.num_tokens,
        "versions": known.versions,
    }
    value = {name: part for name, part in value.items() if part not in (None, {})}
    return canonical_json(value).decode("ascii") if value else None


def _provenance(metadata: Mapping[str, str]) -> Provenance:
    text = metadata.get(_PROVENANCE, "{}")
    try:
        value = _typed(json.loads(text))
        return Provenance(
            value.get("source_sha256"),
            value.get("recipe", {}),
            metadata["model_name"],
            Kind(value["kind"]) if "kind" in value else None,
            value.get("num_tokens"),
            _moment(metadata.get("created_at", "")),
            value.get("versions", {}),
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEntryError(f"`{_PROVENANCE}` cannot be understood: {error}") from error


def _typed(value: Any) -> dict[str, Any]:  # noqa: ANN401  anything that JSON can be
    """`value`, where it is an object whose fields are what they promise; anyone may write it."""
    if not isinstance(value, dict):
        raise TypeError("not an object")
    for name, kind in _FIELDS.items():
        if name in value and type(value[name]) is not kind:
            raise TypeError(f"{name} is not of type {kind.__name__}")
    if not 0 <= value.get("num_tokens", 0) < _MAX_COUNT:
        raise ValueError("num_tokens is out of range")
    if not all(type(each) is str for each in value.get("versions", {}).values()):
        raise TypeError("versions are not text")
    canonical_json(value)  # a number that JSON has no text for is a ValueError
    return value


def _moment(text: str) -> str | None:
    """Seconds since 1970 as RFC 3339; None for what is no such number."""
    try:
        return format_time(float(text))
    except (ValueError, OverflowError):
        return None
