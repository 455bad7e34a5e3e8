from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.store.run_id import RUN_ID_PATTERN, is_run_id, new_run_id, run_id_seconds

MOMENTS = st.floats(-62_135_596_800, 253_402_300_799)
STEP = 2**-15
"""Seconds: two steps of an id, which floats of this size still tell apart."""


@given(MOMENTS)
def test_an_id_says_in_which_second_a_run_began(seconds: float) -> None:
    text = new_run_id(seconds)
    assert re.fullmatch(RUN_ID_PATTERN, text)
    assert is_run_id(text)
    assert run_id_seconds(text) == seconds // 1


@given(st.integers(0, 4_000_000_000), st.integers(0, 2**15 - 1), st.integers(1, 2**15))
def test_ids_sort_as_their_runs_began_within_a_second_too(
    second: int, part: int, later: int
) -> None:
    began = second + part * STEP
    assert new_run_id(began) < new_run_id(began + later * STEP)


def test_two_runs_of_one_moment_have_two_ids() -> None:
    assert len({new_run_id(1.25) for _ in range(3)}) > 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "last",
        "20260102T030405Z",
        "20260102T030405Z-0a1b2c3",
        "20260102T030405Z-0A1B2C3D",
        "20261302T030405Z-0a1b2c3d",
        "20260102T030405Z-0a1b2c3d\n",
        "\u0662\u0660260102T030405Z-0a1b2c3d",
        "../20260102T030405Z-0a1b2c3d",
    ],
)
def test_what_is_no_id_is_told(text: str) -> None:
    assert not is_run_id(text)
    with pytest.raises(ValueError, match="not the id of a run"):
        run_id_seconds(text)
