"""A target in one module: every entry in one folder, its file named by source and recipe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from vcache_cli.entry import Entry, Provenance, creation_time
from vcache_cli.errors import InvalidEntryError
from vcache_cli.header import HeaderLimits
from vcache_cli.items import Features, Pixels, Stage
from vcache_cli.protocols import Evidence, KeyFrom, Unit
from vcache_cli.recipe import Recipe
from vcache_cli.tensor import Tensor

__all__ = ["FlatLayout", "FlatTarget"]

_KEY: Final = re.compile(r"([0-9a-f]{64})-[0-9a-f]{64}")
_PATH: Final = re.compile(rf"flat/({_KEY.pattern})\.safetensors")


@dataclass(frozen=True, slots=True)
class FlatLayout:
    """``flat/<source>-<recipe>.safetensors``, both SHA-256; holds nothing."""

    @property
    def limits(self) -> HeaderLimits:
        """Few tensors, small files."""
        return HeaderLimits(max_tensors=4, max_file_bytes=64 * 1024**2)

    @property
    def checksum_field(self) -> str | None:
        """Each file carries its checksum."""
        return "flat.xxh3_128"

    @property
    def checksum_required(self) -> bool:
        """Always."""
        return True

    @property
    def shards(self) -> tuple[str, ...] | None:
        """One folder."""
        return ("flat",)

    def path_of(self, key: str) -> str:
        """The file named by the key.

        Raises:
            ValueError: not two digests.
        """
        if _KEY.fullmatch(key) is None:
            raise ValueError(f"{key[:80]!r} is not a key: two SHA-256 with `-` between")
        return f"flat/{key}.safetensors"

    def key_of(self, path: str) -> str | None:
        """The file's name."""
        match = _PATH.fullmatch(path)
        return match[1] if match else None

    def pack(self, entry: Entry) -> tuple[dict[str, str], Mapping[str, Tensor]]:
        """Stage, time and the model's label; the name says the rest."""
        known = entry.provenance
        metadata = {"stage": entry.stage.value, "created": known.created or creation_time()}
        if known.model:
            metadata["model"] = known.model
        return {f"flat.{name}": text for name, text in metadata.items()}, entry.tensors

    def unpack(
        self, path: str, metadata: Mapping[str, str], tensors: Mapping[str, Tensor]
    ) -> Entry:
        """The entry that the file's name and metadata tell of.

        Raises:
            InvalidEntryError: no such place, or no such stage.
        """
        match = _PATH.fullmatch(path)
        try:
            stage = Stage(metadata["flat.stage"])
        except (KeyError, ValueError) as error:
            raise InvalidEntryError(f"no stage: {error}") from error
        if match is None:
            raise InvalidEntryError(f"`{path}` is no place of an entry", finding="key_mismatch")
        known = Provenance(
            match[2], model=metadata.get("flat.model"), created=metadata.get("flat.created")
        )
        return Entry(match[1], stage, tensors, known, metadata)


@dataclass(frozen=True, slots=True)
class FlatTarget:
    """A consumer that asks by source digest and recipe digest, side by side."""

    name: str = "flat-demo"
    key_from: KeyFrom = "digest"
    unit: Unit = "item"
    profile: str | None = None
    layout: FlatLayout = FlatLayout()

    def key(self, recipe: Recipe, evidence: Evidence) -> str:
        """Both digests."""
        return f"{evidence.source_sha256}-{recipe.digest}"

    def tensors(self, recipe: Recipe, value: Pixels | Features) -> dict[str, Tensor]:
        """By the names that vcache gives them; features in the recipe's stored dtype."""
        narrow = recipe.encoder.stored_dtype if recipe.encoder else None
        return {
            name: Tensor.from_numpy(array, narrow if array.dtype.kind == "f" else None)
            for name, array in value.tensors.items()
        }
