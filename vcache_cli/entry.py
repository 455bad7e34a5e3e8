"""An entry: tensors under the key that the consumer looks up, with where they came from."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.quantity import format_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vcache_cli.items import Kind, Stage
    from vcache_cli.tensor import Tensor

__all__ = ["Entry", "Provenance", "creation_seconds", "creation_time"]

_BEYOND_CALENDARS: Final = 1e18
"""Seconds that `format_time` clamps; an infinity it could not."""


def creation_seconds() -> float:
    """Now, as entries record it: seconds since 1970.

    ``SOURCE_DATE_EPOCH`` stands in for the clock, so that equal inputs give equal bytes.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    return float(epoch) if epoch.isdecimal() else time.time()


def creation_time() -> str:
    """`creation_seconds` as RFC 3339 in UTC, whole seconds."""
    return format_time(min(creation_seconds(), _BEYOND_CALENDARS))


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where an entry came from. What a consumer's own files do not say is None or empty."""

    source_sha256: str | None = None
    """SHA-256 of the source's encoded bytes, 64 hex."""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """The recipe as JSON, enough to recompute the key and the tensors."""
    model: str | None = None
    """Label of the model for people: a folder's name or a Hub name; decides nothing."""
    kind: Kind | None = None
    num_tokens: int | None = None
    """Tokens that the language model will see."""
    created: str | None = None
    """RFC 3339, UTC."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Library versions, backend, device and compute dtype that made the tensors."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One cached result. Frozen; its tensors' bytes are never written to."""

    key: str
    """The consumer's key; opaque to everything but the target."""
    stage: Stage
    tensors: Mapping[str, Tensor]
    provenance: Provenance = field(default_factory=Provenance)
    metadata: Mapping[str, str] = field(default_factory=dict)
    """The file's own metadata, as read; before an entry is written, what its layout asks for."""

    @property
    def recipe(self) -> Mapping[str, Any]:
        """The recipe as JSON."""
        return self.provenance.recipe

    @property
    def size_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.size_bytes for tensor in self.tensors.values())

    @property
    def parts(self) -> dict[str, Tensor]:
        """The tensors that a file of the entry holds: levels and their table apart."""
        held: dict[str, Tensor] = {}
        for name, tensor in self.tensors.items():
            held |= tensor.parts(name)
        return held

    @property
    def file_bytes(self) -> int:
        """Bytes of all `parts`: what a file of the entry takes, its header aside."""
        return sum(part.size_bytes for part in self.parts.values())

    def numpy(self, name: str) -> NDArray[Any]:
        """Tensor `name` as numpy; bfloat16 widened to float32.

        Raises:
            KeyError: the entry has no such tensor.
        """
        return self.tensors[name].numpy()

    def mlx(self, name: str) -> Any:  # noqa: ANN401  mlx ships no usable type for its arrays
        """Tensor `name` as an `mlx.core.array` of the same dtype.

        Raises:
            KeyError: the entry has no such tensor.
            ImportError: no MLX backend is installed.
        """
        return self.tensors[name].mlx()
