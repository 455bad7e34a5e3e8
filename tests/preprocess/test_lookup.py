"""The table is the server's arithmetic, entry by entry, not an approximation of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from vcache_cli.errors import ModelError
from vcache_cli.preprocess.lookup import DIVIDE_F32, SCALE_F32, apply_table, value_table

SHARES = st.floats(0.01, 1, width=64)
LEVELS = arrays(np.uint8, array_shapes(min_dims=2, max_dims=2, max_side=9).map(lambda s: (*s, 3)))


def settings(**changes: Any) -> dict[str, Any]:  # noqa: ANN401  JSON values
    base = {"do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True}
    return {**base, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, **changes}


@given(LEVELS, st.lists(SHARES, min_size=3, max_size=3), st.lists(SHARES, min_size=3, max_size=3),
       st.floats(1e-4, 1))  # fmt: skip
def test_a_table_gives_the_bits_of_direct_arithmetic(
    levels: np.ndarray[Any, np.dtype[np.uint8]], mean: list[float], std: list[float], factor: float
) -> None:
    resolved = settings(image_mean=mean, image_std=std, rescale_factor=factor)
    ours = apply_table(value_table(resolved), levels)
    scaled = (levels.astype(np.float64) * factor).astype(np.float32).transpose(2, 0, 1)
    channels = np.array(mean, np.float32), np.array(std, np.float32)
    direct = ((scaled.T - channels[0]) / channels[1]).T
    assert ours.dtype == np.float32
    assert ours.flags.c_contiguous
    assert np.array_equal(ours.view(np.uint32), np.ascontiguousarray(direct).view(np.uint32))


@given(LEVELS, SHARES, SHARES, st.floats(1e-4, 1))
def test_float32_arithmetic_gives_the_bits_of_direct_arithmetic(
    levels: np.ndarray[Any, np.dtype[np.uint8]], mean: float, std: float, factor: float
) -> None:
    plain = settings(image_mean=[mean] * 3, image_std=[std] * 3, rescale_factor=factor)
    channels = levels.astype(np.float32).transpose(2, 0, 1)
    for arithmetic, scaled in (
        (SCALE_F32, channels * factor),
        (DIVIDE_F32, channels / 255.0),
    ):
        ours = apply_table(value_table({**plain, "arithmetic": arithmetic}), levels)
        direct = np.ascontiguousarray((scaled - np.float32(mean)) / np.float32(std))
        assert np.array_equal(ours.view(np.uint32), direct.view(np.uint32))


def test_arithmetic_that_is_not_known_is_refused() -> None:
    with pytest.raises(ModelError, match="unknown arithmetic `scale-f16`"):
        value_table(settings(arithmetic="scale-f16"))


def test_steps_that_are_off_do_nothing() -> None:
    plain = value_table(settings(do_normalize=False))
    assert plain[1, 255] == np.float32(1)
    raw = value_table(settings(do_rescale=False, image_mean=[1, 2, 3], image_std=[1, 1, 2]))
    assert raw[:, 255].tolist() == [254, 253, 126]


def test_a_view_that_is_not_contiguous_is_taken_too() -> None:
    levels = np.arange(2 * 8 * 6 * 3, dtype=np.uint8).reshape(2, 8, 6, 3)[1, ::2, 1:5]
    values = apply_table(np.tile(np.arange(256, dtype=np.float32), (3, 1)), levels)
    assert np.array_equal(values, levels.transpose(2, 0, 1))
