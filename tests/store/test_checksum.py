"""The checksum covers the whole file, itself read as zeros."""

from __future__ import annotations

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.errors import InvalidEntryError
from vcache_cli.store.checksum import BLANK, DIGITS, digits_at, start_checksum


@given(st.binary(max_size=80), st.binary(min_size=DIGITS, max_size=DIGITS), st.binary(max_size=80))
def test_the_digits_are_read_as_zeros(before: bytes, digits: bytes, after: bytes) -> None:
    whole = xxhash.xxh3_128(before + BLANK + after).hexdigest()
    assert start_checksum(before + digits + after, len(before)).hexdigest() == whole
    fed = start_checksum(before + digits, len(before))
    fed.update(after)
    assert fed.hexdigest() == whole


def test_the_digits_are_found_behind_their_field() -> None:
    header = b'{"__metadata__":{"a":"sum\\":\\"0","sum":"0123"}}'
    assert header[digits_at(header, "sum") :].startswith(b"0123")


@pytest.mark.parametrize("header", [b"{}", b'{"sum": "0"}', b'{"s\\u0075m":"0"}'])
def test_a_field_that_is_not_spelled_as_we_do_is_not_found(header: bytes) -> None:
    with pytest.raises(InvalidEntryError) as caught:
        digits_at(header, "sum")
    assert caught.value.finding == "checksum"
