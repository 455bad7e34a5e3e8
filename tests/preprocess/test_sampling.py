"""Sampled indices are in range and in order, whatever the clip; refusals are of their kind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.clips import ClipFacts
from vcache_cli.errors import EncodeError
from vcache_cli.preprocess import sampling

BASE: dict[str, Any] = {
    "fps": 2.0,
    "num_frames": None,
    "min_frames": 4,
    "max_frames": 768,
    "factor": 2,
    "initial_shift": True,
    "stills": 16,
}
RULES = (
    sampling.ALL_FRAMES,
    sampling.EVEN_INTEGERS,
    sampling.INTERNVL,
    sampling.MLX_VLM,
    sampling.MLX_VLM_STILLS,
    sampling.OMLX_STILLS,
    sampling.QWEN2_VL,
    sampling.QWEN3_VL,
    sampling.QWEN_VL_UTILS,
    sampling.SMOLVLM,
)


def facts(length: int, rate: float) -> ClipFacts:
    return ClipFacts(length, rate, length / rate if rate else 0.0, 64, 48)


@given(
    rule=st.sampled_from(RULES),
    length=st.integers(0, 5000),
    rate=st.sampled_from([0.0, 1.0, 12.5, 24000 / 1001, 60.0, 240.0]),
    wanted=st.one_of(st.none(), st.integers(1, 900)),
)
def test_indices_are_in_range_and_in_order(
    rule: str, length: int, rate: float, wanted: int | None
) -> None:
    by = {"num_frames": wanted, "fps": None} if wanted else {}
    try:
        indices = sampling.sample_frames({**BASE, **by, "rule": rule}, facts(length, rate))
    except EncodeError as error:
        assert error.item_kind == "sampling"  # noqa: PT017  most are no refusals
        return
    assert indices
    assert list(indices) == sorted(indices)
    assert 0 <= indices[0] <= indices[-1] < length + (rule == sampling.QWEN2_VL)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (sampling.MLX_VLM, (0, 18, 36, 53, 71, 89)),
        (sampling.QWEN_VL_UTILS, (0, 18, 36, 53, 71, 89)),
        (sampling.QWEN2_VL, (0, 15, 30, 45, 60, 75)),
        (sampling.QWEN3_VL, (0, 18, 36, 53, 71, 89)),
        (sampling.EVEN_INTEGERS, (0, 15, 30, 45, 60, 75)),
        (sampling.INTERNVL, (7, 22, 37, 52, 67, 82)),
        (sampling.SMOLVLM, (0, 17, 35, 53, 71, 89)),
    ],
)
def test_three_seconds_at_two_a_second(rule: str, expected: tuple[int, ...]) -> None:
    """One clip, and how differently the servers look at it."""
    assert sampling.sample_frames({**BASE, "rule": rule}, facts(90, 30.0)) == expected


def test_a_rate_and_a_count_exclude_each_other() -> None:
    settings = {**BASE, "rule": sampling.QWEN3_VL, "num_frames": 8}
    with pytest.raises(EncodeError, match="only one"):
        sampling.sample_frames(settings, facts(90, 30.0))


@given(length=st.integers(1, 100_000), most=st.integers(1, 64))
def test_omlx_takes_so_many_frames_evenly_both_ends_included(length: int, most: int) -> None:
    settings = {"rule": sampling.OMLX_STILLS, "stills": most}
    indices = sampling.sample_frames(settings, facts(length, 0.0))
    count = min(length, most)
    last = max(count - 1, 1)
    assert list(indices) == [round(at * (length - 1) / last) for at in range(count)]
