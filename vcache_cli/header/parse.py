"""Reading a header: anything that the format or the limits do not allow is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.errors import InvalidEntryError
from vcache_cli.header.limits import LENGTH_BYTES, Header, HeaderLimits, TensorSpec
from vcache_cli.tensor import ITEMSIZE_BYTES

if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["header_length", "parse_header"]

_MAX_SIDE: Final = 2**31
_MAX_BITS: Final = 2**63
"""Beyond this, readers that multiply in 64 bits overflow, a side of 0 elsewhere or not."""
_MAX_EMPTY: Final = 2**24
"""Product of the other sides of an empty tensor: a sum over the empty one is of that size."""

_TEXT: Final = frozenset({str})
_SPEC_KEYS: Final = ("dtype", "shape", "data_offsets")


def _reject(message: str) -> NoReturn:
    raise InvalidEntryError(message, finding="header")


def header_length(prefix: bytes, file_bytes: int, limits: HeaderLimits) -> int:
    """Bytes of the JSON header that `prefix` (the file's first 8 bytes) announces.

    Raises:
        InvalidEntryError: too short, too long, beyond the end of the file, or misaligned.
    """
    if file_bytes > limits.max_file_bytes:
        _reject(f"file has {file_bytes} bytes, at most {limits.max_file_bytes} are allowed")
    if len(prefix) < LENGTH_BYTES:
        _reject(f"file has {len(prefix)} bytes, a header needs more")
    length = int.from_bytes(prefix[:LENGTH_BYTES], "little")
    if not 2 <= length <= limits.max_header_bytes:  # `{}` is the shortest header
        _reject(f"header of {length} bytes, 2 to {limits.max_header_bytes} are allowed")
    if LENGTH_BYTES + length > file_bytes:
        _reject(f"header of {length} bytes in a file of {file_bytes} bytes")
    if (LENGTH_BYTES + length) % limits.alignment_bytes:
        _reject(
            f"data starts at {LENGTH_BYTES + length}, not at a multiple of {limits.alignment_bytes}"
        )
    return length


def parse_header(raw: bytes, payload_bytes: int, limits: HeaderLimits) -> Header:
    """The header in `raw` (the JSON alone), checked against `payload_bytes` of tensor data.

    Raises:
        InvalidEntryError: anything that the format or `limits` do not allow.
    """
    table = _load_table(raw)
    metadata = _checked_metadata(table.pop("__metadata__", ()), limits)
    if len(table) > limits.max_tensors:
        _reject(f"{len(table)} tensors, at most {limits.max_tensors} are allowed")
    if len(table) < limits.min_tensors:
        _reject(f"{len(table)} tensors, at least {limits.min_tensors} are expected")
    specs = [_checked_spec(name, value, limits) for name, value in table.items()]
    if len(specs) > 1:
        specs.sort(key=_place)
    _check_cover(specs, payload_bytes)
    return Header(metadata, tuple(specs), LENGTH_BYTES + len(raw))


@lru_cache(maxsize=1024)
def _is_name(pattern: str, name: str) -> bool:
    """All entries of a model have the same few names."""
    return re.fullmatch(pattern, name) is not None


def _place(spec: TensorSpec) -> tuple[int, int]:
    return spec.begin, spec.end


def _load_table(raw: bytes) -> dict[str, Any]:
    body = raw.rstrip(b" ")
    if not (body.startswith(b"{") and body.endswith(b"}")):
        _reject("header is not a JSON object padded with spaces")
    try:
        text = body.decode("utf-8")
        pairs, end = _SCAN(text, 0)
    except StopIteration as error:
        _reject(f"header is not valid JSON: no value at {error.value}")
    except (ValueError, RecursionError) as error:
        _reject(f"header is not valid JSON: {error}")
    if end != len(text):
        _reject(f"header is not valid JSON: more after {end}")
    if "\\u" in text:
        _check_surrogates(pairs)
    if "-0" in text and _SIGNED_ZERO.search(text):  # a date has the first, too
        _check_zeros(text)
    return _table(pairs, "the header")


_SCAN: Final[Callable[[str, int], tuple[Any, int]]] = json.JSONDecoder(
    object_pairs_hook=tuple
).scan_once  # type: ignore[attr-defined]  # documented by its source only; `decode` calls it
"""Parses in C: an object comes as a tuple of pairs, so that none is lost, an array as a list."""


_SIGNED_ZERO: Final = re.compile(r"[\[,:\s]-0")


def _table(pairs: object, what: str) -> dict[str, Any]:
    if not isinstance(pairs, tuple):
        _reject(f"{what} is not a JSON object")
    table = dict(pairs)
    if len(table) != len(pairs):
        _reject(f"{what} has a key twice")
    return table


def _check_zeros(text: str) -> None:
    """Refuse ``-0``: a whole number here, a fraction to other parsers. Other signs show later."""
    try:
        json.loads(text, parse_int=_natural)
    except ValueError as error:
        _reject(f"header is not valid JSON: {error}")


def _natural(digits: str) -> int:
    if digits.startswith("-"):
        raise ValueError(f"negative number {digits}")
    return int(digits)


def _check_surrogates(value: object) -> None:
    """Refuse lone surrogates, which JSON can spell and other parsers refuse."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            _reject(f"header holds text that is not Unicode: {error.reason}")
    elif isinstance(value, (tuple, list)):
        for inner in value:
            _check_surrogates(inner)


def _checked_metadata(pairs: object, limits: HeaderLimits) -> dict[str, str]:
    if pairs is None and limits.null_metadata:
        return {}
    metadata = _table(pairs, "`__metadata__`")
    if not _TEXT.issuperset(map(type, metadata.values())):
        _reject("`__metadata__` holds a value that is not a string")
    return metadata


def _checked_spec(name: str, pairs: object, limits: HeaderLimits) -> TensorSpec:
    if not _is_name(limits.name_pattern, name):
        _reject(f"tensor name {name[:64]!r} is not allowed")
    dtype, shape, offsets = _parts(name, pairs)
    if type(dtype) is not str or (dtype not in limits.dtypes and not limits.foreign_dtypes):
        _reject(f"tensor `{name}` has dtype {str(dtype)[:16]!r}, which is not allowed")
    if type(shape) is not list or not limits.min_ndim <= len(shape) <= limits.max_ndim:
        _reject(f"tensor `{name}` has no valid shape")
    if type(offsets) is not list or len(offsets) != 2:
        _reject(f"tensor `{name}` has no valid data_offsets")
    begin, end = offsets
    if type(begin) is not int or type(end) is not int or not 0 <= begin <= end:
        _reject(f"tensor `{name}` has no valid data_offsets")
    expected = _size_bytes(name, dtype, shape)
    if end - begin != expected and dtype in limits.dtypes:
        _reject(f"tensor `{name}` {dtype}{shape} does not fit its data_offsets")
    return TensorSpec(name, dtype, tuple(shape), begin, end)


def _parts(name: str, pairs: object) -> tuple[object, object, object]:
    """The values of dtype, shape and data_offsets."""
    if not isinstance(pairs, tuple) or len(pairs) != len(_SPEC_KEYS):
        _reject(f"tensor `{name}` does not have exactly {', '.join(_SPEC_KEYS)}")
    (first, dtype), (second, shape), (third, offsets) = pairs
    if (first, second, third) == _SPEC_KEYS:  # the order in which everybody writes them
        return dtype, shape, offsets
    value = dict(pairs)
    if value.keys() != set(_SPEC_KEYS):
        _reject(f"tensor `{name}` does not have exactly {', '.join(_SPEC_KEYS)}")
    return value["dtype"], value["shape"], value["data_offsets"]


def _size_bytes(name: str, dtype: str, shape: list[object]) -> int:
    """Bytes of a tensor; readers that multiply in 64 bits get the same."""
    size_bytes = bound = ITEMSIZE_BYTES.get(dtype, 1)  # 1: foreign, its size is not compared
    for side in shape:
        if type(side) is not int or not 0 <= side < _MAX_SIDE:
            _reject(f"tensor `{name}` has a side that is not a number from 0 to 2^31 - 1")
        size_bytes *= side
        bound *= side or 1
    if 8 * bound >= _MAX_BITS:
        _reject(f"tensor `{name}` has sides whose product overflows")
    if not size_bytes and bound > _MAX_EMPTY * ITEMSIZE_BYTES.get(dtype, 1):
        _reject(f"tensor `{name}` is empty, and its other sides are too large")
    return size_bytes


def _check_cover(specs: list[TensorSpec], payload_bytes: int) -> None:
    position = 0
    for spec in specs:
        if spec.begin != position:
            _reject(f"tensor `{spec.name}` starts at {spec.begin}, expected {position}")
        position = spec.end
    if position != payload_bytes:
        _reject(f"tensors cover {position} bytes, the file holds {payload_bytes}")
