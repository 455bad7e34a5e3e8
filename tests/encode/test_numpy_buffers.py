"""Memory is used again when the last view of it is gone, and never before."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from vcache_cli.encode import numpy_buffers
from vcache_cli.encode.numpy_buffers import empty

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHAPE = (512, 256)


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    """What tests before this one left in its thread is gone."""
    numpy_buffers._BLOCKS.free.clear()


def place(array: NDArray[np.float32]) -> int:
    """Where its numbers lie."""
    return int(array.__array_interface__["data"][0])


def test_memory_is_used_again() -> None:
    first = empty(SHAPE)
    at = place(first)
    del first
    assert place(empty(SHAPE)) == at


def test_memory_that_a_view_of_a_view_shows_is_not_used_again() -> None:
    first = empty(SHAPE)
    first[...] = 7
    view = first.reshape(-1, 2)[3:].swapaxes(0, 1)[1]
    del first
    others = [empty(SHAPE) for _ in range(3)]
    for other in others:
        other[...] = 8
    assert (view == 7).all()


def test_memory_is_used_again_by_what_is_a_little_smaller() -> None:
    first = empty(SHAPE)
    at = place(first)
    del first
    smaller = empty((SHAPE[0], SHAPE[1] - 1))
    assert place(smaller) == at
    assert smaller.shape == (SHAPE[0], SHAPE[1] - 1)
    assert smaller.flags.c_contiguous


def test_a_large_block_is_not_spent_on_a_small_array() -> None:
    large = empty((8 << 10, 1 << 10))
    at = place(large)
    del large
    assert place(empty(SHAPE)) != at


def test_another_thread_has_memory_of_its_own() -> None:
    mine = empty(SHAPE)
    at, found = place(mine), list[int]()
    del mine
    other = threading.Thread(target=lambda: found.append(place(empty(SHAPE))))
    other.start()
    other.join()
    assert found
    assert found != [at]


def test_what_is_kept_does_not_grow_with_what_was_used() -> None:
    many = [empty(SHAPE) for _ in range(50)]
    del many
    assert 1 <= len(numpy_buffers._BLOCKS.free) < 50
