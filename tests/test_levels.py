"""A tensor kept as levels is, in every way one can look at it, the tensor of its values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from vcache_cli.levels import LevelTable, LevelTensor
from vcache_cli.tensor import Tensor


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], LevelTable]:
    """Levels of any shape, and a table that fits one of their axes."""
    channels, stride = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    shape = list(draw(array_shapes(max_dims=4, max_side=4)))
    axis = draw(st.integers(0, len(shape) - 1))
    shape[axis] = channels * stride * draw(st.integers(0, 3))
    levels = draw(arrays(np.uint8, tuple(shape)))
    values = np.random.default_rng(draw(st.integers(0, 9))).random((channels, 256), np.float32)
    return levels, LevelTable(values, axis, stride)


@given(pairs())
def test_levels_are_what_their_table_says(
    pair: tuple[np.ndarray[Any, np.dtype[np.uint8]], LevelTable],
) -> None:
    levels, table = pair
    tensor = LevelTensor.of(levels, table)
    expected = np.empty(levels.shape, np.float32)
    for place in np.ndindex(levels.shape):
        channel = place[table.channel_axis] // table.channel_stride % len(table.values)
        expected[place] = table.values[channel, levels[place]]
    assert (tensor.dtype, tensor.shape) == ("F32", levels.shape)
    assert tensor.size_bytes == expected.nbytes
    assert np.array_equal(tensor.numpy(), expected)
    assert np.array_equal(table.expand(levels), expected)
    assert bytes(tensor.data) == expected.tobytes()


def level_tensor() -> LevelTensor:
    table = Tensor.from_numpy(np.arange(512, dtype=np.float32).reshape(2, 256))
    return LevelTensor(Tensor("U8", (3, 4), bytes(range(12))), table, axis=1, stride=2)


def test_it_is_expanded_once() -> None:
    tensor = level_tensor()
    assert tensor.data is tensor.data
    assert not tensor.numpy().flags.writeable


def test_a_file_holds_levels_and_table() -> None:
    tensor = level_tensor()
    assert tensor.parts("x") == {"x": tensor.levels, "x.lut": tensor.table}
    assert tensor.levels.parts("x") == {"x": tensor.levels}


def test_its_text_shows_no_bytes() -> None:
    assert repr(level_tensor()) == "LevelTensor(shape=(3, 4), axis=1, stride=2)"


@pytest.mark.parametrize(
    ("shape", "table", "axis", "stride"),
    [
        *(((3, 4), ("F32", (2, 256)), axis, 1) for axis in (-1, 2)),
        *(((3, 4), ("F32", (2, 256)), 1, stride) for stride in (0, -1, 3)),
        *(((3, 4), ("F32", sides), 1, 1) for sides in ((0, 256), (2, 255), (512,), (3, 256))),
        ((3, 4), ("I32", (2, 256)), 1, 1),
        ((), ("F32", (1, 256)), 0, 1),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    shape: tuple[int, ...], table: tuple[str, tuple[int, ...]], axis: int, stride: int
) -> None:
    sides = int(np.prod(table[1])) * 4
    values = Tensor(table[0], table[1], bytes(sides))
    levels = Tensor("U8", shape, bytes(int(np.prod(shape))))
    with pytest.raises(ValueError):  # noqa: PT011  one of several
        LevelTensor(levels, values, axis=axis, stride=stride)


def test_levels_are_uint8() -> None:
    table = Tensor("F32", (1, 256), bytes(1024))
    with pytest.raises(ValueError, match="levels are U8"):
        LevelTensor(Tensor("F32", (2,), bytes(8)), table, axis=0, stride=1)
