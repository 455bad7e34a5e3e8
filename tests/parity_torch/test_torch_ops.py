"""Torch does what numpy does, operation by operation, and is told where it cannot."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from vcache_cli.encode import torch_ops
from vcache_cli.encode.numpy_ops import NumpyOps
from vcache_cli.encode.ops import ACTIVATIONS
from vcache_cli.tensor import Tensor

pytestmark = pytest.mark.parity_torch

SIDES = st.integers(1, 6)
TOLERANCES = {"F32": 5e-6, "BF16": 3e-2}
"""Of the largest number."""
Float32 = NDArray[np.float32]


def draw(seed: int, *shape: int) -> Float32:
    """Normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


class Pair:
    """One call on both backends; the arguments are numpy arrays."""

    def __init__(self, dtype: str) -> None:
        self.numpy = NumpyOps()
        self.torch = torch_ops.TorchOps(dtype)
        self.tolerance = TOLERANCES[dtype]

    def check(self, name: str, /, *arrays: Float32, **options: Any) -> None:  # noqa: ANN401
        """Both give the same within the dtype."""
        expected = getattr(self.numpy, name)(*(array.copy() for array in arrays), **options)
        with self.torch.session():
            loaded = (self.torch.load(Tensor.from_numpy(array)) for array in arrays)
            found = np.stack(self.torch.unstack(getattr(self.torch, name)(*loaded, **options)))
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() <= self.tolerance * max(1, np.abs(expected).max())


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(TOLERANCES)), SIDES, SIDES, st.sampled_from([1, 2]), SIDES)
def test_every_operation_does_what_numpy_does(
    dtype: str, n: int, t: int, heads: int, width: int
) -> None:
    pair, d = Pair(dtype), heads * width
    x, weight, bias = draw(0, n, t, d), draw(1, 5, d), draw(2, 5)
    pair.check("linear", x, weight, bias)
    pair.check("linear", x, draw(1, 5, d, 1, 1), bias)
    pair.check("layer_norm", x * 9, draw(3, d), draw(4, d), epsilon=1e-1)
    pair.check("rms_norm", x, draw(3, d), epsilon=1e-5)
    pair.check("rms_norm", x, draw(3, d), epsilon=1e-5, shift=1.0)
    pair.check("attention", x, draw(5, n, t + 1, d), draw(6, n, t + 1, d), num_heads=heads)
    pair.check("attention", x[:1], draw(5, n, t + 1, d), draw(6, n, t + 1, d), num_heads=heads)
    pair.check("add", x, draw(7, t, d))
    pair.check("mul", x, draw(7, t, d))
    pair.check("prepend", draw(8, d), x)
    pair.check("token", x, index=0)
    pair.check("tokens", x, begin=t - 1, end=t)
    pair.check("rows", draw(9, 6, d), begin=2, end=4)
    pair.check("reshape", x, shape=(n, t * d))
    pair.check("pool_grid", draw(7, n, 4 * t, d), height=2, width=2 * t, side=2)
    pair.check("patches", draw(10, n, 3, 2 * t + 1, 2 * t), side=2)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.sampled_from([1, 2]), SIDES)
def test_packed_tokens_do_what_they_do_in_numpy(lengths: list[int], heads: int, half: int) -> None:
    pair, bounds, d = Pair("F32"), [0, *accumulate(lengths)], 2 * half * heads
    count = bounds[-1] + 1  # at least one token
    bounds = [*bounds, count]
    x, key, value = (draw(seed, count, d) for seed in range(3))
    pair.check("segment_attention", x, key, value, num_heads=heads, bounds=bounds)
    pair.check("rotate", x, draw(4, count, half), draw(5, count, half), num_heads=heads)
    pair.check("take", x, index=np.arange(count, dtype=np.int64)[::-1])
    parts = pair.torch.split(pair.torch.pack([x[:1], x[1:]]), [1, count - 1])
    assert np.array_equal(parts[0], x[:1])
    assert np.array_equal(parts[1], x[1:])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_is_that_of_numpy(name: str) -> None:
    Pair("F32").check("activation", np.linspace(-20, 20, 1001, dtype=np.float32)[None], name=name)


def test_a_session_leaves_the_threads_of_torch_as_they_were() -> None:
    before = torch.get_num_threads()
    with torch_ops.TorchOps("F32").session():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_running_out_of_memory_is_a_memory_error() -> None:
    with pytest.raises(MemoryError), torch_ops.TorchOps("F32").session():
        torch.empty(2**60, dtype=torch.uint8)


def test_the_device_is_named() -> None:
    ops = torch_ops.TorchOps("BF16")
    device = ops.device
    assert device["backend"] == "torch"
    assert device["dtype"] == "BF16"
    assert ops.versions["torch"]
