"""Remembering headers changes no answer: each is what a strict parse gives."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.errors import InvalidEntryError
from vcache_cli.header import LENGTH_BYTES, Header, HeaderLimits, HeaderReader, parse_header
from vcache_cli.header.build import build_header
from vcache_cli.header.template import _MAX_HEADER_BYTES, _MAX_KINDS, _template

LIMITS = HeaderLimits()
PAYLOAD_BYTES = 43
TENSORS = {"features": ("F32", (2, 4)), "pooled": ("BF16", (4,)), "mask": ("BOOL", (3,))}
# Names and values that a search for `"name":"value"` could take for others.
NAMES = ["key", 'a"key', "dtype", "features", "created", "\u00e9", ""]
VALUES = ["abcd", "F321", 'a"cd', "a\\cd", "\u00e9", "-0 1", "key\x1f", "    ", ',"b"', "x", ""]


def raw_of(metadata: dict[str, str], tensors: dict[str, tuple[str, tuple[int, ...]]]) -> bytes:
    """The JSON of a header, padded."""
    return build_header(metadata, tensors)[LENGTH_BYTES:]


def answer(raw: bytes, headers: HeaderReader | None = None) -> Header | tuple[str, str]:
    """What a reader, or the parser alone, says of a header."""
    try:
        if headers is None:
            return parse_header(raw, PAYLOAD_BYTES, LIMITS)
        return headers.read(raw, PAYLOAD_BYTES)
    except InvalidEntryError as error:
        return error.finding, error.message


@st.composite
def changed(draw: st.DrawFn, raw: bytes) -> bytes:
    """The header with a few bytes turned into others, as often as not of the same length."""
    data = bytearray(raw)
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(data) - 1))
        byte = draw(st.sampled_from(list(b'0aFx-{}[]",:. \\u\x00\x1f\x7f\xc3\xa9\n')))
        kind = draw(st.sampled_from(["set", "flip", "move"]))
        if kind == "set":
            data[at] = byte
        elif kind == "flip":
            data[at] ^= 1 << draw(st.integers(0, 7))
        else:
            del data[at]
            data.insert(draw(st.integers(0, len(data))), byte)
    return bytes(data)


FIELDS = st.lists(st.sampled_from(NAMES), unique=True, max_size=4)


@given(st.data(), FIELDS)
def test_answers_and_refusals_are_those_of_the_parser(
    data: st.DataObject, names: list[str]
) -> None:
    headers = HeaderReader(LIMITS)
    values = st.fixed_dictionaries({name: st.sampled_from(VALUES) for name in names})
    for _ in range(data.draw(st.integers(1, 8))):
        raw = data.draw(changed(raw_of(data.draw(values), TENSORS)))
        expected = answer(raw)
        for _ in range(2):  # unknown at first, perhaps known afterwards
            found = answer(raw, headers)
            assert found == expected
            if isinstance(found, Header) and isinstance(expected, Header):
                assert list(found.metadata.items()) == list(expected.metadata.items())


def entry_header(number: int, model: str = "siglip") -> bytes:
    """A header of ours in small: digests and a text that is no plain one."""
    recipe = f'{{"model":"{model}"}}'
    return raw_of({"key": f"{number:064x}", "recipe": recipe, "sum": f"{number:032x}"}, TENSORS)


def is_known(headers: HeaderReader, raw: bytes) -> bool:
    """Whether it is read without a parse, which would make other values of the tensors."""
    first, second = (headers.read(raw, PAYLOAD_BYTES) for _ in range(2))
    return first.tensors is second.tensors


def test_a_third_header_that_differs_as_two_did_is_known() -> None:
    headers = HeaderReader(LIMITS)
    first, second, third = (headers.read(entry_header(n), PAYLOAD_BYTES) for n in (1, 2, 3))
    assert first.tensors is not second.tensors
    assert third.tensors is second.tensors
    assert third.metadata["key"] == f"{3:064x}"


@pytest.mark.parametrize("byte", [b'"', b"\\", b"\x00", b"\x1f", b"\xc3", b"\x7f"])
def test_what_could_end_a_text_is_left_to_the_parser(byte: bytes) -> None:
    headers = HeaderReader(LIMITS)
    for number in (1, 2):
        headers.read(entry_header(number), PAYLOAD_BYTES)
    raw = entry_header(0).replace(b"0" * 32, b"0" * 31 + byte, 1)
    assert answer(raw, headers) == answer(raw)


def test_headers_of_two_models_of_one_length_are_known_side_by_side() -> None:
    headers = HeaderReader(LIMITS)
    models = ["siglip", "clip-b"]
    for number in range(2):
        for model in models:
            headers.read(entry_header(number, model), PAYLOAD_BYTES)
    assert all(is_known(headers, entry_header(7, model)) for model in models)


def test_what_a_caller_does_to_a_result_changes_no_other() -> None:
    headers = HeaderReader(LIMITS)
    for number in range(4):
        raw = entry_header(number)
        metadata = headers.read(raw, PAYLOAD_BYTES).metadata
        assert isinstance(metadata, dict)
        metadata.clear()
        assert answer(raw, headers) == answer(raw)


def test_a_place_that_is_not_the_value_is_not_believed() -> None:
    raw = raw_of({'a"key': "abcd", "key": "abcd"}, TENSORS)  # the first ends like the second
    header = parse_header(raw, PAYLOAD_BYTES, LIMITS)
    headers = HeaderReader(LIMITS)
    assert not headers._holds(_template(raw, header, ["key"]), PAYLOAD_BYTES)
    raw = raw_of({"key": "abcd"}, TENSORS)
    header = parse_header(raw, PAYLOAD_BYTES, LIMITS)
    assert headers._holds(_template(raw, header, ["key"]), PAYLOAD_BYTES)


def test_a_payload_of_another_size_is_refused_however_well_the_header_is_known() -> None:
    headers = HeaderReader(LIMITS)
    for number in range(3):
        headers.read(entry_header(number), PAYLOAD_BYTES)
    with pytest.raises(InvalidEntryError, match="cover"):
        headers.read(entry_header(1), PAYLOAD_BYTES + 1)


def test_what_is_remembered_is_bounded() -> None:
    headers = HeaderReader(LIMITS)
    for count in range(_MAX_KINDS + 10):
        headers.read(raw_of({}, {"a": ("U8", (count,))}), count)
    assert len(headers._known) == _MAX_KINDS
    long = raw_of({"pad": "x" * _MAX_HEADER_BYTES}, TENSORS)
    headers.read(long, PAYLOAD_BYTES)
    assert (len(long), PAYLOAD_BYTES) not in headers._known


def test_threads_get_their_own_answers() -> None:
    headers = HeaderReader(LIMITS)
    wrong: list[int] = []

    def work(begin: int) -> None:
        for number in range(begin, begin + 200):
            found = headers.read(entry_header(number), PAYLOAD_BYTES)
            if found.metadata["key"] != f"{number:064x}":
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(begin,)) for begin in range(0, 800, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
