"""Weight files of a checkpoint: which there are, and where each tensor lies in them."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vcache_cli.checkpoint.jsonfile import open_now, read_object
from vcache_cli.errors import InvalidEntryError, MissingWeightsError, ModelError
from vcache_cli.header import LENGTH_BYTES, HeaderLimits, header_length, parse_header
from vcache_cli.tensor import ITEMSIZE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from io import FileIO
    from typing import Final

    from vcache_cli.header import Header

__all__ = ["Packed", "TensorRange", "missing_weights", "read_range", "read_tensor", "tensor_table"]

LIMITS: Final = HeaderLimits(
    max_header_bytes=100_000_000,  # as the format's reference reader
    max_tensors=1_000_000,
    max_ndim=32,
    max_file_bytes=2**50,
    alignment_bytes=1,  # published files are not aligned
    name_pattern=r"[^\x00-\x1f\x7f]{1,1024}",
    dtypes=frozenset(ITEMSIZE_BYTES),
    foreign_dtypes=True,  # quantised language models; not our tensors
    null_metadata=True,
)
"""What a published weight file may hold."""

_OTHER_FORMATS: Final = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack", "*.gguf", "*.npz")
_SINGLE: Final = "model.safetensors"
_STEP_BYTES: Final = 2**30
"""A single read of 2 GiB or more is refused or cut short by some systems."""
_DOWNLOAD: Final = "download the missing files; for a name of the Hub, `--download` does"
_SHOWN: Final = 3
"""Names listed in a message before it counts the rest."""


@dataclass(frozen=True, slots=True)
class TensorRange:
    """Where the bytes of one tensor lie."""

    dtype: str
    """As the file says; one that is not in `tensor.ITEMSIZE_BYTES` cannot be read."""
    shape: tuple[int, ...]
    path: Path
    offset: int
    """First byte, counted from the start of the file."""
    size_bytes: int
    packed: Packed | None = None
    """Where the tensor is quantised: then `dtype` and `shape` are those of what it stands for."""
    missing: bool = False
    """True where an index names the tensor, but the file is not there; dtype and shape are
    then not known."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What makes a matrix of levels one of numbers; see `quantised`."""

    scales: TensorRange
    biases: TensorRange
    group_size: int
    """Columns that share a scale and a bias."""
    bits: int


def tensor_table(folder: Path) -> dict[str, TensorRange]:
    """Every tensor of the checkpoint by name; reads the headers of its weight files only.

    Raises:
        ModelError: no weights, weights in another format, a missing or malformed file.
    """
    index = _index_path(folder)
    if index is None:
        return _file_table(_single_file(folder))
    weight_map = _weight_map(index)
    tables = {name: _file_table(folder / name) for name in _present_shards(index, weight_map)}
    missing = [name for name, shard in weight_map.items() if name not in tables.get(shard, {name})]
    if missing:
        raise ModelError(
            f"{index}: expected `{missing[0]}` in {weight_map[missing[0]]}, found no such tensor "
            f"({len(missing)} of {len(weight_map)} missing)",
            hint="download the checkpoint again; index and weight files do not belong together",
        )
    return {
        name: tables[shard][name]
        if shard in tables
        else TensorRange("", (), folder / shard, 0, 0, missing=True)
        for name, shard in weight_map.items()
    }


def _index_path(folder: Path) -> Path | None:
    if (folder / _SINGLE).is_file():
        return None
    found = sorted(folder.glob("*.safetensors.index.json"))
    standard = folder / f"{_SINGLE}.index.json"
    return standard if standard in found else next(iter(found), None)


def _single_file(folder: Path) -> Path:
    if (folder / _SINGLE).is_file():
        return folder / _SINGLE
    found = sorted(folder.glob("*.safetensors"))
    if len(found) == 1:
        return found[0]
    if found:
        raise ModelError(
            f"{folder}: expected {_SINGLE} or an index of shards, found {len(found)} files "
            f"without an index: {_listed([path.name for path in found])}",
            hint=f"download {_SINGLE}.index.json too",
        )
    others = sorted(path.name for glob in _OTHER_FORMATS for path in folder.glob(glob))
    if others:
        raise ModelError(
            f"{folder}: expected weights as safetensors, found only {_listed(others)}",
            hint="vcache needs safetensors: convert the checkpoint, or pick a revision that has it",
        )
    raise MissingWeightsError(
        f"{folder}: expected weights in {_SINGLE} or {_SINGLE}.index.json, found neither",
        files=(_SINGLE,),
        hint="download the weights too; `--stage pixels` works without them",
    )


def _weight_map(index: Path) -> dict[str, str]:
    content = read_object(index) or {}
    weight_map = content.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelError(f"{index}: expected an object `weight_map` of tensors, found none")
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or not _stays_inside(shard):
            raise ModelError(
                f"{index}: expected a file of this folder for `{name}`, found {shard!r}"
            )
    return weight_map


def _stays_inside(shard: str) -> bool:
    parts = shard.split("/")
    return "\0" not in shard and not {"", ".", ".."} & set(parts)


def _present_shards(index: Path, weight_map: Mapping[str, str]) -> list[str]:
    shards = sorted(set(weight_map.values()))
    return [shard for shard in shards if os.path.isfile(index.parent / shard)]


def missing_weights(places: Iterable[tuple[str, TensorRange]]) -> MissingWeightsError:
    """The refusal of tensors, by name, whose files are not there."""
    named = list(places)
    files = tuple(sorted({place.path.name for _, place in named}))
    return MissingWeightsError(
        f"{named[0][1].path.parent}: expected `{named[0][0]}` in {named[0][1].path.name}, found no "
        f"such file; {len(files)} of the files needed missing: {_listed(list(files))}",
        files=files,
        hint=_DOWNLOAD,
    )


def _listed(names: list[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def read_tensor(place: TensorRange) -> memoryview:
    """The bytes of one tensor.

    Raises:
        ModelError: the file cannot be read, or was cut short since its header was read.
    """
    with _named(place.path), open(place.path, "rb", buffering=0, opener=open_now) as file:
        return read_range(file, place.offset, place.size_bytes)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    except InvalidEntryError as error:
        raise ModelError(
            f"{path}: expected a safetensors file, found: {error}",
            hint="download the file again; it may be cut short or a Git LFS pointer",
        ) from error


def _file_table(path: Path) -> dict[str, TensorRange]:
    with _named(path):
        header = _read_header(path)
    start = header.data_start
    return {
        spec.name: TensorRange(
            spec.dtype, spec.shape, path, start + spec.begin, spec.end - spec.begin
        )
        for spec in header.tensors
    }


def _read_header(path: Path) -> Header:
    with open(path, "rb", buffering=0, opener=open_now) as file:
        file_bytes = os.fstat(file.fileno()).st_size
        prefix = bytes(read_range(file, 0, min(LENGTH_BYTES, file_bytes)))
        length = header_length(prefix, file_bytes, LIMITS)
        raw = bytes(read_range(file, LENGTH_BYTES, length))
    return parse_header(raw, file_bytes - LENGTH_BYTES - length, LIMITS)


def read_range(file: FileIO, offset: int, size_bytes: int) -> memoryview:
    """Exactly `size_bytes` bytes from `offset` on, and no others.

    Raises:
        OSError: not readable.
        InvalidEntryError: the file ends before.
    """
    view = memoryview(bytearray(size_bytes))
    file.seek(offset)
    done = 0
    while done < size_bytes:
        count = file.readinto(view[done : done + _STEP_BYTES])
        if not count:
            raise InvalidEntryError(f"{done} of {size_bytes} bytes at {offset}")
        done += count
    return view.toreadonly()
