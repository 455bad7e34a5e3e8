"""What the strict codec accepts, every known reader accepts; what it writes, it reads back."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors import SafetensorError, deserialize

from vcache_cli.errors import InvalidEntryError
from vcache_cli.header import (
    LENGTH_BYTES,
    Header,
    HeaderLimits,
    build_header,
    canonical_order,
    header_length,
    parse_header,
)
from vcache_cli.tensor import ITEMSIZE_BYTES

LIMITS = HeaderLimits()
ANY = HeaderLimits(alignment_bytes=1)

NAMES = st.from_regex(LIMITS.name_pattern, fullmatch=True)
SPECS = st.tuples(
    st.sampled_from(sorted(LIMITS.dtypes)), st.lists(st.integers(0, 5), max_size=4).map(tuple)
)
METADATA = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.characters(exclude_categories=["Cs"])),
    max_size=4,
)
NUMBERS = st.integers(-2, 70) | st.sampled_from([2**31 - 1, 2**31, 2**32 + 4, 2**63, 2**64 - 1])
ODD: st.SearchStrategy[Any] = st.sampled_from([None, True, 1.0, "4", [], {}, -0.0, 10**30])
SHAPES = st.lists(NUMBERS | ODD, max_size=5) | ODD
OFFSETS = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted) | st.lists(
    NUMBERS | ODD, max_size=3
)


def file_of(table: object, payload_bytes: int) -> bytes:
    """A file with that header and as many zeros as data."""
    body = table if isinstance(table, bytes) else json.dumps(table).encode()
    return len(body).to_bytes(LENGTH_BYTES, "little") + body + bytes(payload_bytes)


def read(data: bytes, limits: HeaderLimits = ANY) -> Header:
    """The header of a whole file, read as the store does."""
    end = LENGTH_BYTES + header_length(data[:LENGTH_BYTES], len(data), limits)
    return parse_header(data[LENGTH_BYTES:end], len(data) - end, limits)


def accepted(data: bytes) -> bool:
    """Whether the strict codec takes the file; anything but its own error escapes."""
    try:
        read(data)
    except InvalidEntryError:
        return False
    return True


def accepted_by_reference(data: bytes) -> bool:
    """Whether the format's reference reader takes the file."""
    try:
        deserialize(data)  # type: ignore[no-untyped-call]
    except SafetensorError:
        return False
    return True


@given(METADATA, st.dictionaries(NAMES, SPECS, max_size=6))
def test_what_is_built_is_read_back(
    metadata: dict[str, str], tensors: dict[str, tuple[str, tuple[int, ...]]]
) -> None:
    names = canonical_order({name: dtype for name, (dtype, _) in tensors.items()})
    raw = build_header(metadata, {name: tensors[name] for name in names})
    payload_bytes = sum(spec_bytes(*spec) for spec in tensors.values())
    header = read(raw + bytes(payload_bytes), LIMITS)
    assert header.metadata == metadata
    assert {spec.name: (spec.dtype, spec.shape) for spec in header.tensors} == tensors
    assert header.data_start == len(raw)
    assert len(raw) % 64 == 0
    for spec in header.tensors:
        assert spec.begin % ITEMSIZE_BYTES[spec.dtype] == 0
    assert accepted_by_reference(raw + bytes(payload_bytes))


def test_metadata_may_be_null_only_where_a_layout_allows_it() -> None:
    """MLX writes a checkpoint so; no writer of entries does."""
    raw = b'{"__metadata__":null,"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}'
    assert parse_header(raw, 3, HeaderLimits(null_metadata=True)).metadata == {}
    assert accepted_by_reference(len(raw).to_bytes(8, "little") + raw + bytes(3))
    with pytest.raises(InvalidEntryError, match="`__metadata__`"):
        parse_header(raw, 3, HeaderLimits())


def spec_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor."""
    size_bytes = ITEMSIZE_BYTES[dtype]
    for side in shape:
        size_bytes *= side
    return size_bytes


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "c"]),
        st.fixed_dictionaries(
            {
                "dtype": st.sampled_from(["F32", "U8", "BF16", "BOOL", "I64", "F64", "XX"]) | ODD,
                "shape": SHAPES,
                "data_offsets": OFFSETS,
            },
            optional={"more": ODD},
        ),
        max_size=3,
    ),
    st.integers(0, 40),
)
@example({"a": {"dtype": "U8", "shape": [2**31 - 1] * 3 + [0], "data_offsets": [0, 0]}}, 0)
@example({"a": {"dtype": "U8", "shape": [2**31 - 1] * 2 + [0], "data_offsets": [0, 0]}}, 0)
@example({"a": {"dtype": "F32", "shape": [-1, -4], "data_offsets": [0, 16]}}, 16)
def test_what_is_accepted_the_reference_accepts(table: Mapping[str, Any], payload: int) -> None:
    data = file_of(dict(table), payload)
    if accepted(data):
        assert accepted_by_reference(data)


SEED = build_header(
    {"format": "1", "note": 'a "quoted" \u00e9'},
    {"features": ("F32", (2, 4)), "pooled": ("BF16", (4,)), "mask": ("BOOL", (3,))},
) + bytes(43)


@pytest.mark.parametrize("shape", [[0, 2, 2**31 - 1], [2**31 - 1, 0], [4096, 0, 4097]], ids=str)
def test_an_empty_tensor_does_not_stand_for_gigabytes(shape: list[int]) -> None:
    """It costs its file nothing, and a server that sums over the empty side all its memory."""
    table = {"a": {"dtype": "BOOL", "shape": shape, "data_offsets": [0, 0]}}
    with pytest.raises(InvalidEntryError, match="is empty"):
        read(file_of(table, 0))
    table["a"]["shape"] = [0, 4096, 4096]
    assert read(file_of(table, 0)).tensors


def test_minus_zero_is_no_whole_number() -> None:
    """Python reads ``-0`` as 0, the reference as a fraction, which it refuses."""
    changed = SEED.replace(b'"data_offsets":[0,', b'"data_offsets":[-0,', 1).replace(b"  ", b" ", 1)
    assert len(changed) == len(SEED)
    assert not accepted_by_reference(changed)
    assert not accepted(changed)


@given(st.data())
def test_a_mutated_header_is_refused_or_taken_by_the_reference_too(data: st.DataObject) -> None:
    changed = bytearray(SEED)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed) - 1))
        kind = data.draw(st.sampled_from(["flip", "insert", "delete", "swap"]))
        byte = data.draw(st.sampled_from(list(b'0123456789-{}[]",:.eE \\u\x00\xff\n')))
        if kind == "flip":
            changed[at] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "insert":
            changed.insert(at, byte)
        elif kind == "delete":
            del changed[at]
        else:
            changed[at] = byte
    if accepted(bytes(changed)):
        assert accepted_by_reference(bytes(changed))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_nothing_else(data: bytes) -> None:
    accepted(data)
    accepted(file_of(data, 0))
    accepted(file_of(b"{" + data + b"}", 0))


@pytest.mark.parametrize(
    "body",
    [
        b"{" + b'"a":' * 16_000 + b"}",
        b'{"a":' + b"[" * 60_000 + b"]" * 5_000 + b"}",
        b'{"a":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001,
        b'{"a":' + b"9" * 60_000 + b"}",
        b"{" + b",".join(b'"%d":1' % number for number in range(7_000)) + b"}",
        b'{"__metadata__":{"a":"' + b"\\u0041" * 10_000 + b'"}}',
        b"{" + b" " * 65_000 + b"}",
    ],
    ids=["colons", "arrays", "objects", "digits", "keys", "escapes", "spaces"],
)
def test_a_large_hostile_header_costs_little(body: bytes) -> None:
    data = file_of(body, 0)
    accepted(data)
    tracemalloc.start()
    try:
        accepted(data)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 8 * 1024 * 1024
    before = time.thread_time()  # a busy machine is no fault of ours
    accepted(data)
    assert time.thread_time() - before < 0.25  # a bound on growth, not a measurement


def test_metadata_keys_are_sorted_whatever_their_order() -> None:
    assert build_header({"b": "1", "a": "2"}, {}) == build_header({"a": "2", "b": "1"}, {})


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (HeaderLimits(max_tensors=1), "3 tensors"),
        (HeaderLimits(max_ndim=1), "no valid shape"),
        (HeaderLimits(dtypes=frozenset({"F32"})), "not allowed"),
        (HeaderLimits(name_pattern="x"), "name"),
        (HeaderLimits(max_header_bytes=16), "header of"),
        (HeaderLimits(max_file_bytes=16), "file has"),
        (HeaderLimits(alignment_bytes=4096), "multiple"),
    ],
)
def test_limits_belong_to_the_layout(limits: HeaderLimits, message: str) -> None:
    assert read(SEED, LIMITS).tensors
    with pytest.raises(InvalidEntryError, match=message):
        read(SEED, limits)


def test_fields_in_another_order_are_the_same_header() -> None:
    table = {"a": {"data_offsets": [0, 4], "shape": [1], "dtype": "F32"}}
    (spec,) = read(file_of(table, 4)).tensors
    assert (spec.dtype, spec.shape, spec.begin, spec.end) == ("F32", (1,), 0, 4)
