"""Files of entries, as the writer makes them and a strict reader finds them; in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from vcache_cli.entry import Entry
from vcache_cli.header import LENGTH_BYTES, header_length, parse_header
from vcache_cli.protocols import Layout
from vcache_cli.store.writer import pack_entry
from vcache_cli.tensor import Tensor

__all__ = ["EntryFile", "contents", "file_of"]


@dataclass(frozen=True, slots=True)
class EntryFile:
    """What a strict reader finds in the file of an entry."""

    path: str
    metadata: Mapping[str, str]
    tensors: Mapping[str, Tensor]
    data: bytes


def file_of(entry: Entry, layout: Layout) -> EntryFile:
    """The file of `entry` as the writer makes it, read back by the strict reader."""
    packed = pack_entry(entry, layout)
    data = b"".join(packed.parts)
    end = LENGTH_BYTES + header_length(data[:LENGTH_BYTES], len(data), layout.limits)
    header = parse_header(data[LENGTH_BYTES:end], len(data) - end, layout.limits)
    tensors = {
        spec.name: Tensor(spec.dtype, spec.shape, data[end + spec.begin : end + spec.end])
        for spec in header.tensors
    }
    return EntryFile(
        packed.relative, MappingProxyType(dict(header.metadata)), MappingProxyType(tensors), data
    )


def contents(tensors: Mapping[str, Tensor]) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Dtype, shape and bytes of each tensor: what makes two of them the same."""
    return {name: (each.dtype, each.shape, bytes(each.data)) for name, each in tensors.items()}
