"""What our reader, the format's reference and MLX each make of a file, as comparable values."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

from safetensors import SafetensorError, deserialize

from vcache_cli.errors import InvalidEntryError
from vcache_cli.header import (
    LENGTH_BYTES,
    Header,
    HeaderLimits,
    HeaderReader,
    header_length,
    parse_header,
)

__all__ = ["Readers", "Seen", "Shape", "difference", "fingerprint", "reference"]

Shape = tuple[str, tuple[int, ...], str]
"""dtype, shape, and a digest of the bytes."""


@dataclass(frozen=True)
class Seen:
    """What one reader finds in a file."""

    tensors: Mapping[str, Shape]
    metadata: Mapping[str, str] | None = None
    """None where this reader does not tell."""


def fingerprint(data: bytes | memoryview) -> str:
    """Stands for the bytes of a tensor."""
    return hashlib.blake2b(data, digest_size=12).hexdigest()


class Readers:
    """Our readers of one set of limits; the one with a memory has to agree with the other."""

    def __init__(self, limits: HeaderLimits) -> None:
        self.limits = limits
        self._remembering = HeaderReader(limits)

    def seen(self, data: bytes) -> Seen | None:
        """What we find; None where we refuse the file. Anything else escapes."""
        plain = self._header(data, None)
        remembered = self._header(data, self._remembering)
        if plain != remembered:
            raise AssertionError(f"with templates {remembered}, without {plain}")
        if plain is None:
            return None
        view = memoryview(data)[plain.data_start :]
        tensors = {
            spec.name: (spec.dtype, spec.shape, fingerprint(view[spec.begin : spec.end]))
            for spec in plain.tensors
        }
        return Seen(tensors, dict(plain.metadata))

    def _header(self, data: bytes, reader: HeaderReader | None) -> Header | None:
        try:
            end = LENGTH_BYTES + header_length(data[:LENGTH_BYTES], len(data), self.limits)
            raw, payload = data[LENGTH_BYTES:end], len(data) - end
            return reader.read(raw, payload) if reader else parse_header(raw, payload, self.limits)
        except InvalidEntryError:
            return None


def reference(data: bytes) -> Seen | str:
    """What `safetensors`, written in Rust, finds; why it refuses the file."""
    try:
        found = deserialize(data)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        return f"refused: {error}"
    return Seen(
        {
            name: (spec["dtype"], tuple(spec["shape"]), fingerprint(bytes(spec["data"])))
            for name, spec in found
        }
    )


def difference(ours: Seen, theirs: Seen) -> str | None:
    """In what they differ; None where they do not."""
    if ours.tensors.keys() != theirs.tensors.keys():
        return f"names {sorted(ours.tensors)} and {sorted(theirs.tensors)}"
    for name, mine in ours.tensors.items():
        if mine != theirs.tensors[name]:
            return f"{name!r}: {mine} and {theirs.tensors[name]}"
    for name, (_, shape, _) in ours.tensors.items():
        if math.prod(shape) < 0:
            return f"{name!r}: a negative size"
    if ours.metadata is not None and theirs.metadata not in (None, ours.metadata):
        return f"metadata {ours.metadata} and {theirs.metadata}"
    return None
