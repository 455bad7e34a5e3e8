"""What the format's reference reader makes of an entry, asked where its answer can be new."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vcache_cli.header import build_header, canonical_order
from vcache_cli.store.files import READ_FLAGS

if TYPE_CHECKING:
    from typing import Final

    from vcache_cli.entry import Entry
    from vcache_cli.tensor import Tensor

__all__ = ["SecondOpinion"]

_MAX_AGREED: Final = 4096
"""Tables that are remembered: a store has a few, or one for each size of picture."""

_Table = tuple[tuple[str, str, tuple[int, ...]], ...]


class SecondOpinion:
    """Compares entries with what `safetensors` reads in their files. Any thread.

    A header that is, byte for byte, what our writer makes of its metadata and tensors leaves the
    reference nothing to see differently but the tensors: of each table it is asked once. Of any
    other header it is asked each time, and reads the whole file.
    """

    def __init__(self) -> None:
        self._agreed: set[_Table] = set()

    def difference(self, path: str, entry: Entry) -> str | None:
        """How the reference differs from `entry`, which was read at `path`; None where not.

        Raises:
            OSError: the file cannot be read again.
        """
        parts = entry.parts
        names = canonical_order({name: part.dtype for name, part in parts.items()})
        table = tuple((name, parts[name].dtype, parts[name].shape) for name in names)
        plain = _is_plain(path, entry, table)
        if plain and table in self._agreed:
            return None
        with open(path, "rb") as file:
            told = _compared(file.read(), parts)
        if plain and told is None and len(self._agreed) < _MAX_AGREED:
            self._agreed.add(table)
        return told


def _is_plain(path: str, entry: Entry, table: _Table) -> bool:
    """Whether the file begins as our writer begins it; its header was checked before."""
    wanted = build_header(entry.metadata, {name: (dtype, shape) for name, dtype, shape in table})
    fd = os.open(path, READ_FLAGS)
    try:
        return os.pread(fd, len(wanted), 0) == wanted
    finally:
        os.close(fd)


def _compared(data: bytes, parts: dict[str, Tensor]) -> str | None:
    from safetensors import SafetensorError, deserialize

    try:
        tensors = dict(deserialize(data))  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        return f"safetensors refuses it: {error}"
    if tensors.keys() != parts.keys():
        return f"safetensors finds the tensors {sorted(tensors)}"
    for name, ours in parts.items():
        theirs = tensors[name]
        if (ours.dtype, list(ours.shape)) != (theirs["dtype"], theirs["shape"]):
            return f"safetensors finds {name} {theirs['dtype']}{theirs['shape']}"
        if memoryview(ours.data) != memoryview(theirs["data"]):
            return f"safetensors finds other bytes in {name}"
    return None
