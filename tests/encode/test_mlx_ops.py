"""MLX does what numpy does, and says what is missing where it is not installed."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from vcache_cli.encode import mlx_ops
from vcache_cli.encode.numpy_ops import NumpyOps
from vcache_cli.encode.ops import ACTIVATIONS
from vcache_cli.errors import ModelError
from vcache_cli.tensor import Tensor

SIDES = st.integers(1, 6)
Float32 = NDArray[np.float32]


def draw(seed: int, *shape: int) -> Float32:
    """Normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


class Pair:
    """One call on both backends; the arguments are numpy arrays, the first has a batch axis."""

    def __init__(self) -> None:
        self.numpy = NumpyOps()
        self.mlx = mlx_ops.MlxOps("F32")

    def check(self, name: str, /, *arrays: Float32, **options: Any) -> None:  # noqa: ANN401
        """Both give the same within float32."""
        expected = getattr(self.numpy, name)(*(array.copy() for array in arrays), **options)
        loaded = (self.mlx.load(Tensor.from_numpy(array)) for array in arrays)
        found = np.stack(self.mlx.unstack(getattr(self.mlx, name)(*loaded, **options)))
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() <= 5e-6 * max(1, np.abs(expected).max())


@pytest.mark.needs_mlx
@settings(max_examples=25)
@given(SIDES, SIDES, st.sampled_from([1, 2]), SIDES)
def test_every_operation_does_what_numpy_does(n: int, t: int, heads: int, width: int) -> None:
    pair, d = Pair(), heads * width
    x, weight, bias = draw(0, n, t, d), draw(1, 5, d), draw(2, 5)
    pair.check("linear", x, weight, bias)
    pair.check("linear", x, draw(1, 5, d, 1, 1), bias)
    pair.check("layer_norm", x, draw(3, d), draw(4, d), epsilon=1e-5)
    pair.check("attention", x, draw(5, n, t + 1, d), draw(6, n, t + 1, d), num_heads=heads)
    pair.check("attention", x[:1], draw(5, n, t + 1, d), draw(6, n, t + 1, d), num_heads=heads)
    pair.check("add", x, draw(7, t, d))
    pair.check("prepend", draw(8, d), x)
    pair.check("token", x, index=0)
    pair.check("rows", draw(9, 6, d), begin=2, end=4)
    pair.check("tokens", x, begin=t - 1, end=t)
    pair.check("rms_norm", x, draw(3, d), epsilon=1e-5)
    pair.check("rms_norm", x, draw(3, d), epsilon=1e-5, shift=1.0)
    pair.check("mul", x, draw(7, t, d))
    pair.check("reshape", x, shape=(n, t * d))
    pair.check("pool_grid", draw(7, n, 4 * t, d), height=2, width=2 * t, side=2)
    pair.check("patches", draw(10, n, 3, 2 * t + 1, 2 * t), side=2)


@pytest.mark.needs_mlx
@settings(max_examples=25)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.sampled_from([1, 2]), SIDES)
def test_packed_tokens_do_what_they_do_in_numpy(lengths: list[int], heads: int, half: int) -> None:
    pair, bounds, d = Pair(), [0, *accumulate(lengths)], 2 * half * heads
    count = bounds[-1] + 1  # at least one token
    bounds = [*bounds, count]
    x, key, value = (draw(seed, count, d) for seed in range(3))
    pair.check("segment_attention", x, key, value, num_heads=heads, bounds=bounds)
    pair.check("rotate", x, draw(4, count, half), draw(5, count, half), num_heads=heads)
    pair.check("take", x, index=np.arange(count, dtype=np.int64)[::-1])
    parts = pair.mlx.split(pair.mlx.pack([x[:1], x[1:]]), [1, count - 1])
    assert np.array_equal(parts[0], x[:1])
    assert np.array_equal(parts[1], x[1:])


@pytest.mark.needs_mlx
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_is_that_of_numpy(name: str) -> None:
    Pair().check("activation", np.linspace(-20, 20, 1001, dtype=np.float32)[None], name=name)


@pytest.mark.needs_mlx
def test_stacked_items_come_back() -> None:
    ops = mlx_ops.BACKEND.ops("F32")
    items = [draw(seed, 3, 4, 4) for seed in range(2)]
    back = ops.unstack(ops.stack(items))
    assert all(np.array_equal(a, b) for a, b in zip(items, back, strict=True))


@pytest.mark.needs_mlx
def test_the_device_is_named() -> None:
    assert mlx_ops.BACKEND.unavailable() is None
    ops = mlx_ops.BACKEND.ops("BF16")
    device = ops.device
    assert device["backend"] == "mlx"
    assert device["dtype"] == "BF16"
    assert device["device"].split()[0] in {"cpu", "gpu"}
    assert ops.versions["mlx"]


@pytest.mark.needs_mlx
def test_mlx_is_preferred_on_an_accelerator_only() -> None:
    assert (mlx_ops.BACKEND.preference() > 10) == mlx_ops.on_accelerator()


def test_a_dtype_that_nothing_computes_in_is_refused() -> None:
    with pytest.raises(ModelError, match="BF16, F16, F32, got I8"):
        mlx_ops.BACKEND.ops("I8")


@pytest.mark.parametrize("spec", [None, ModuleSpec("mlx.core", None, origin="/nowhere/core.so")])
def test_a_missing_mlx_names_the_extras(
    spec: ModuleSpec | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: spec)
    reason = mlx_ops.BACKEND.unavailable()
    assert reason is not None
    assert "`vcache-cli[cpu]`" in reason
