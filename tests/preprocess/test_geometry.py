"""Sizes and crops of fixed-size families, by their properties and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.preprocess.geometry import crop_span, resized_size

SIDES = st.integers(1, 5000)


@given(SIDES, SIDES, st.integers(1, 1000))
def test_the_short_side_gets_its_length_and_the_other_is_cut_down(
    height: int, width: int, edge: int
) -> None:
    new_height, new_width = resized_size(height, width, {"shortest_edge": edge})
    assert min(new_height, new_width) == edge
    exact = edge * max(height, width) / min(height, width)
    assert max(new_height, new_width) == int(exact)


@given(SIDES, SIDES)
def test_a_size_of_both_sides_does_not_look_at_the_picture(height: int, width: int) -> None:
    assert resized_size(height, width, {"height": 7, "width": 9}) == (7, 9)


@given(SIDES, SIDES, st.integers(1, 500), st.integers(500, 900))
def test_a_cap_counts_where_it_is_passed_and_treats_both_sides_alike(
    height: int, width: int, edge: int, cap: int
) -> None:
    size = resized_size(height, width, {"shortest_edge": edge, "longest_edge": cap})
    assert resized_size(width, height, {"shortest_edge": edge, "longest_edge": cap}) == size[::-1]
    if max(height, width) / min(height, width) * edge <= cap:
        assert size == resized_size(height, width, {"shortest_edge": edge})
    elif size != (height, width):  # the server leaves a short side that is right already
        assert max(size) <= cap


@given(SIDES, SIDES, SIDES, SIDES)
def test_a_box_holds_the_result(height: int, width: int, box_height: int, box_width: int) -> None:
    box = {"max_height": box_height, "max_width": box_width}
    new_height, new_width = resized_size(height, width, box)
    assert new_height <= box_height
    assert new_width <= box_width


@pytest.mark.parametrize(
    ("size", "expected"),
    [((480, 640), (224, 298)), ((640, 480), (298, 224)), ((1, 300), (224, 67200)),
     ((333, 777), (224, 522)), ((224, 224), (224, 224))],
)  # fmt: skip
def test_known_sizes_of_clip(size: tuple[int, int], expected: tuple[int, int]) -> None:
    assert resized_size(*size, {"shortest_edge": 224}) == expected


@given(st.integers(1, 300), st.integers(1, 300))
def test_a_crop_takes_the_middle_or_lies_in_it(length: int, wanted: int) -> None:
    start, end, place, size = crop_span(length, wanted)
    axis = np.zeros(size, int)
    axis[place : place + end - start] = np.arange(1, length + 1)[start:end]
    assert size == wanted
    before, after = start, length - end
    if wanted <= length:
        assert end - start == wanted
        assert after - before in {0, 1}
    else:
        assert np.count_nonzero(axis) == length
        assert place - (wanted - length - place) in {0, 1}
