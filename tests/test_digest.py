"""Identities are SHA-256, never cut, and JSON has one form."""

from __future__ import annotations

import hashlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.digest import (
    DIGEST_LENGTH,
    canonical_json,
    digest_bytes,
    digest_chunks,
    digest_json,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.binary()))
def test_chunks_digest_as_their_concatenation(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    assert digest_chunks(chunks) == digest_bytes(whole) == hashlib.sha256(whole).hexdigest()


@given(JSON)
def test_canonical_json_reads_back_and_is_a_fixed_point(value: object) -> None:
    text = canonical_json(value)
    assert json.loads(text) == value
    assert canonical_json(json.loads(text)) == text


@given(st.dictionaries(st.text(), st.integers()))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    backwards = dict(reversed(value.items()))
    assert digest_json(value) == digest_json(backwards)
    assert len(digest_json(value)) == DIGEST_LENGTH


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_float_that_json_cannot_spell_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"scale": value})


def test_a_value_that_json_has_no_form_for_is_refused() -> None:
    with pytest.raises(TypeError):
        canonical_json({"path": object()})
