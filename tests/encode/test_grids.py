"""The arithmetic of grids, against definitions written the slow way."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.encode.grids import Grid, frame_lengths, places, rotary, taps, windows

GRIDS = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9)).map(
        lambda grid: (grid[0], 2 * grid[1], 2 * grid[2])
    ),
    min_size=1,
    max_size=3,
)


def slow_places(grids: list[Grid], merge: int) -> list[tuple[int, int]]:
    return [
        (top + row, left + column)
        for frames, height, width in grids
        for _ in range(frames)
        for top in range(0, height, merge)
        for left in range(0, width, merge)
        for row in range(merge)
        for column in range(merge)
    ]


@given(GRIDS)
def test_places_go_block_by_block(grids: list[Grid]) -> None:
    assert [*zip(*places(grids, merge=2).tolist(), strict=True)] == slow_places(grids, 2)


@given(GRIDS)
def test_every_frame_is_a_segment(grids: list[Grid]) -> None:
    lengths = frame_lengths(grids)
    assert sum(lengths) == places(grids, merge=2).shape[1]
    assert len(lengths) == sum(frames for frames, _, _ in grids)


def test_angles_turn_by_row_and_by_column() -> None:
    cosine, sine = rotary(np.array([[3, 5], [0, 7]]), width=8, theta=10_000.0)
    for patch, (row, column) in enumerate([(3, 0), (5, 7)]):
        angles = [row, row / 100, column, column / 100]
        assert np.allclose(cosine[patch], [math.cos(each) for each in angles], atol=1e-6)
        assert np.allclose(sine[patch], [math.sin(each) for each in angles], atol=1e-6)
    assert cosine.dtype == sine.dtype == np.float32


@given(GRIDS, st.integers(1, 5))
def test_windows_hold_neighbours_and_every_token_once(grids: list[Grid], side: int) -> None:
    found = windows(grids, merge=2, side=side)
    num_tokens = sum(t * h * w for t, h, w in grids) // 4
    assert np.array_equal(found.order[found.inverse], np.arange(num_tokens))
    assert sum(found.lengths) == 4 * num_tokens
    labels = [
        (item, frame, row // side, column // side)
        for item, (t, h, w) in enumerate(grids)
        for frame in range(t)
        for row in range(h // 2)
        for column in range(w // 2)
    ]
    begin = 0
    for length in found.lengths:
        tokens = found.order[begin : begin + length // 4]
        begin += length // 4
        assert len({labels[token] for token in tokens}) == 1
    assert len(found.lengths) == len(set(labels))


@given(GRIDS, st.integers(2, 48))
def test_positions_are_mixed_between_their_neighbours(grids: list[Grid], side: int) -> None:
    found = taps(grids, merge=2, side=side)
    assert found.rows.min() >= 0
    assert found.rows.max() < side * side
    assert np.allclose(found.weights.sum(axis=1), 1, atol=1e-5)
    table = np.arange(side * side, dtype=np.float64)  # a plane, which mixing reproduces
    mixed = (table[found.rows] * found.weights).sum(axis=1)
    place = iter(slow_places(grids, 2))
    expected = [
        row * (side - 1) / (height - 1) * side + column * (side - 1) / (width - 1)
        for frames, height, width in grids
        for _ in range(frames * height * width)
        for row, column in [next(place)]
    ]
    assert np.allclose(mixed, expected, atol=1e-2)


def test_corners_of_the_picture_are_corners_of_the_table() -> None:
    found = taps([(1, 6, 10)], merge=2, side=7)
    assert found.rows[0, 0] == 0
    assert found.weights[0].tolist() == [1, 0, 0, 0]
    assert found.rows[-1, 0] == 48
    assert found.weights[-1].tolist() == [1, 0, 0, 0]
