"""Features as colours: the same each time, whatever they hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from vcache_cli.drawing import feature_colours, feature_grid


def test_unlike_tokens_get_unlike_colours() -> None:
    rng = np.random.default_rng(1)
    kinds = rng.normal(size=(2, 64)).astype(np.float32)
    tokens = kinds[[0] * 20 + [1] * 20] + rng.normal(size=(40, 64)).astype(np.float32) * 0.01
    colours, share = feature_colours(tokens)
    assert share > 0.9
    near = np.ptp(colours[:20, 0].astype(int)), np.ptp(colours[20:, 0].astype(int))
    apart = abs(int(colours[:20, 0].mean()) - int(colours[20:, 0].mean()))
    assert apart > 200
    assert max(near) < 40


def test_the_same_features_give_the_same_colours() -> None:
    tokens = np.random.default_rng(2).normal(size=(700, 32)).astype(np.float32)
    first, _ = feature_colours(tokens)
    again, _ = feature_colours(tokens.copy())
    assert np.array_equal(first, again)
    scaled, _ = feature_colours(tokens * 1e6)
    assert np.abs(first.astype(int) - scaled.astype(int)).max() <= 1


@given(
    arrays(
        np.float32,
        array_shapes(min_dims=2, max_dims=2, max_side=9),
        elements=st.floats(width=32, allow_nan=True, allow_infinity=True),
    )
)
def test_any_values_have_colours(tokens: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
    colours, share = feature_colours(tokens)
    assert colours.shape == (len(tokens), 3)
    assert 0 <= share <= 1 + 1e-9


def test_equal_tokens_are_grey() -> None:
    colours, share = feature_colours(np.ones((9, 4), np.float32))
    assert (np.unique(colours).tolist(), share) == ([128], 0.0)


@pytest.mark.parametrize(
    ("tokens", "grid", "found"),
    [
        (12, (3, 4), (3, 4, 0)),
        (13, (3, 4), (3, 4, 1)),
        (50, None, (7, 7, 1)),
        (49, None, (7, 7, 0)),
        (7, (3, 4), (1, 7, 0)),
        (200, None, (3, 64, 0)),
        (0, None, (0, 0, 0)),
    ],
)
def test_tokens_lie_in_their_grid_or_in_a_likely_one(
    tokens: int, grid: tuple[int, int] | None, found: tuple[int, int, int]
) -> None:
    assert feature_grid(tokens, grid) == found
