"""Each operation against its definition, in float64 or by plain loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from vcache_cli.encode import numpy_ops
from vcache_cli.encode.blas import blas_name
from vcache_cli.encode.ops import ACTIVATIONS
from vcache_cli.tensor import Tensor

OPS = numpy_ops.NumpyOps()
SIDES = st.integers(1, 9)
Float32 = NDArray[np.float32]


def draw(seed: int, *shape: int) -> Float32:
    """Normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def close(found: Float32, expected: NDArray[Any], tolerance: float = 2e-6) -> None:
    """The same shape, float32, and equal relative to the largest number."""
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= tolerance * max(1, np.abs(expected).max())


def normal_share(x: float) -> float:
    """The normal distribution function."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


CURVES = {
    "gelu": lambda x: x * normal_share(x),
    "gelu_tanh": lambda x: (
        0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "quick_gelu": lambda x: x / (1 + math.exp(-1.702 * x)),
    "silu": lambda x: x / (1 + math.exp(-x)),
}


def test_every_activation_has_a_definition_here() -> None:
    assert set(CURVES) == set(ACTIVATIONS)


@pytest.mark.parametrize("name", ACTIVATIONS)
@given(st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=50))
def test_an_activation_follows_its_formula(name: str, numbers: list[float]) -> None:
    expected = np.array([CURVES[name](number) for number in numbers])
    found = OPS.activation(np.array(numbers, np.float32), name=name)
    close(found, expected, 1e-6)  # half a last bit of tanh, times 30


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_of_large_numbers_neither_warns_nor_breaks(name: str) -> None:
    found = OPS.activation(np.array([-1e4, 0, 1e4], np.float32), name=name)
    assert found.tolist() == [0, 0, 1e4]


def test_an_activation_of_many_blocks_is_one_activation() -> None:
    x = draw(0, 3, 70_000)
    whole = OPS.activation(x.copy(), name="gelu_tanh")
    rows = [OPS.activation(row.copy(), name="gelu_tanh") for row in x]
    close(whole, np.stack(rows), 0)


@given(SIDES, SIDES, st.integers(1, 64), st.integers(0, 99))
def test_layer_norm_is_normal_whatever_the_offset(n: int, t: int, d: int, seed: int) -> None:
    x = draw(seed, n, t, d) * 3 + 50
    weight, bias = draw(seed + 1, d), draw(seed + 2, d)
    wide = x.astype(np.float64)
    spread = np.sqrt(wide.var(axis=-1, keepdims=True) + 1e-5)
    expected = (wide - wide.mean(axis=-1, keepdims=True)) / spread * weight + bias
    close(OPS.layer_norm(x, weight, bias, epsilon=1e-5), expected, 2e-4)


@given(SIDES, SIDES, SIDES, SIDES)
def test_linear_is_a_product_with_the_turned_weight(n: int, t: int, d: int, out: int) -> None:
    x, weight, bias = draw(0, n, t, d), draw(1, out, d), draw(2, out)
    product = np.einsum("ntd,od->nto", x, weight.astype(np.float64))
    close(OPS.linear(x, weight, None), product)
    close(OPS.linear(x, weight, bias), product + bias)


@pytest.mark.skipif("openblas" not in blas_name().lower(), reason="known of OpenBLAS")
def test_a_row_alone_is_what_it_is_among_others() -> None:
    """A pooled row must not depend on how many pictures were in the batch."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((9, 768), np.float32)
    weight, bias = rng.standard_normal((768, 768), np.float32), rng.standard_normal(768, np.float32)
    with OPS.session():
        together = OPS.linear(x, weight, bias)
        alone = [OPS.linear(row[None], weight, bias) for row in x]
    assert np.array_equal(np.concatenate(alone), together)


@given(SIDES, SIDES, SIDES, st.sampled_from([1, 2, 4]), SIDES)
def test_attention_is_softmax_head_by_head(n: int, q: int, t: int, heads: int, width: int) -> None:
    query, key, value = (draw(i, n, side, heads * width) for i, side in enumerate((q, t, t)))
    wide = query.astype(np.float64)
    asking, keys, values = (x.reshape(n, -1, heads, width) for x in (wide, key, value))
    scores = np.exp(np.einsum("nqhw,nthw->nhqt", asking, keys) / math.sqrt(width))
    scores /= scores.sum(axis=-1, keepdims=True)
    expected = np.einsum("nhqt,nthw->nqhw", scores, values).reshape(n, q, heads * width)
    close(OPS.attention(query.copy(), key, value, num_heads=heads), expected)


def test_one_query_serves_all_items() -> None:
    query, key, value = draw(0, 1, 1, 8), draw(1, 3, 5, 8), draw(2, 3, 5, 8)
    repeated = np.repeat(query, 3, axis=0)
    shared = OPS.attention(query.copy(), key, value, num_heads=2)
    assert np.array_equal(shared, OPS.attention(repeated, key, value, num_heads=2))


def test_attention_in_blocks_of_rows_is_one_attention() -> None:
    """800 tokens take more scores than are held at once."""
    query, key, value = (draw(seed, 1, 800, 16) for seed in range(3))
    whole = OPS.attention(query.copy(), key, value, num_heads=2)
    last = OPS.attention(query[:, -1:].copy(), key, value, num_heads=2)
    close(whole[:, -1:], last)


def test_attention_survives_large_scores() -> None:
    x = draw(0, 1, 4, 8) * 1e3
    assert np.isfinite(OPS.attention(x.copy(), x, x, num_heads=2)).all()


@given(st.sampled_from([1, 2]), SIDES, st.integers(1, 3), st.integers(0, 3), st.integers(1, 4))
def test_patches_and_a_product_are_a_convolution(
    n: int, out: int, rows: int, spare: int, side: int
) -> None:
    """Pixels beyond the last whole patch are left out."""
    spare = min(spare, side - 1)
    pixels = draw(0, n, 3, rows * side + spare, (rows + 1) * side + spare)
    kernel = draw(1, out, 3, side, side)
    found = OPS.linear(OPS.patches(pixels, side=side), kernel, None)
    expected = np.empty((n, rows * (rows + 1), out))
    for place in range(rows * (rows + 1)):
        y, x = divmod(place, rows + 1)
        window = pixels[:, :, y * side : (y + 1) * side, x * side : (x + 1) * side]
        expected[:, place] = np.einsum("nchw,ochw->no", window, kernel.astype(np.float64))
    close(found, expected)


def test_the_small_steps_do_what_they_say() -> None:
    x, token = draw(0, 2, 3, 4), draw(1, 4)
    longer = OPS.prepend(token, x)
    assert longer.shape == (2, 4, 4)
    assert (longer[:, 0] == token).all()
    assert (longer[:, 1:] == x).all()
    picked = OPS.token(x, index=1)
    assert (picked == x[:, 1]).all()
    assert not np.shares_memory(picked, x)
    assert (OPS.rows(x, begin=1, end=2) == x[1:2]).all()
    assert (OPS.add(x.copy(), token) == x + token).all()


def test_items_stack_and_unstack() -> None:
    items = [draw(seed, 3, 4, 4) for seed in range(3)]
    for count in (1, 3):
        back = OPS.unstack(OPS.stack(items[:count]))
        assert all(np.array_equal(a, b) for a, b in zip(items[:count], back, strict=True))


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_weights_are_widened_exactly(dtype: str) -> None:
    values = np.array([[1.5, -2], [0, 0.25]], np.float32)
    loaded = OPS.load(Tensor.from_numpy(values, dtype))
    assert loaded.dtype == np.float32
    assert np.array_equal(loaded, values)


def test_what_decides_the_last_bits_is_named() -> None:
    assert OPS.versions.keys() == {"blas", "numpy"}
    assert OPS.versions["numpy"] == np.__version__
    assert all(OPS.versions.values())
    assert all(OPS.device.values())
    assert (OPS.device["backend"], OPS.device["dtype"]) == ("numpy", "F32")
    assert OPS.concurrency >= 1
