"""How far apart two computations lie."""

from __future__ import annotations

import numpy as np
import pytest

from vcache_cli.encode.tolerances import EXACT, TOLERANCES, compare, tolerance_of
from vcache_cli.tensor import Tensor


def test_equal_tensors_differ_by_nothing() -> None:
    values = {"features": np.arange(6, dtype=np.float32).reshape(2, 3)}
    found = compare(values, values)
    assert (found.max_error, found.cosine) == (0, 1)
    assert not found.exceeds(EXACT)


def test_the_tensor_that_differs_most_is_told() -> None:
    anew = {name: np.ones((2, 2), np.float32) * 4 for name in ("a", "b")}
    found = compare(anew, {"a": anew["a"] + 1, "b": anew["b"] + 2})
    assert found.tensor == "b"
    assert found.max_error == pytest.approx(0.5)
    assert found.cosine == pytest.approx(1)
    assert "off by 0.5" in str(found)


@pytest.mark.parametrize(
    "stored",
    [
        {"a": np.ones((2, 1), np.float32)},
        {"a": np.full((1, 2), np.nan, np.float32)},
        {"a": np.ones((1, 2), np.float32), "b": np.ones(1, np.float32)},
        {},
    ],
)
def test_what_cannot_be_subtracted_always_exceeds(
    stored: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]],
) -> None:
    found = compare({"a": np.ones((1, 2), np.float32)}, stored)
    assert found.max_error is None
    assert found.exceeds(max(TOLERANCES.values(), key=lambda each: each.max_error))


def test_values_of_nothing_but_zeros_can_be_compared() -> None:
    zeros = {"a": np.zeros((2, 2), np.float32)}
    assert compare(zeros, {"a": np.ones((2, 2), np.float32)}).max_error == 1
    assert compare({"a": np.zeros((0, 2), np.float32)}, {"a": np.zeros((0, 2))}).max_error == 0


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_last_bits_that_round_the_other_way_are_within_the_tolerance(dtype: str) -> None:
    """Another backend differs in the last bits; narrowing can make a whole step of that."""
    rng = np.random.default_rng(1)
    values = rng.standard_normal((64, 48), dtype=np.float32)
    others = values * (1 + 1e-5 * rng.standard_normal(values.shape, dtype=np.float32))
    anew, stored = ({"features": Tensor.from_numpy(x, dtype).numpy()} for x in (values, others))
    assert not compare(anew, stored).exceeds(TOLERANCES["F32", dtype])


def test_pixels_have_no_tolerance_and_features_that_of_their_dtypes() -> None:
    assert tolerance_of({"stage": "pixels"}) == EXACT
    dtypes = {"compute_dtype": "F32", "stored_dtype": "BF16"}
    assert tolerance_of({"encoder": dtypes}) == TOLERANCES["F32", "BF16"]
    assert tolerance_of({"encoder": dtypes | {"compute_dtype": "F8"}}) == EXACT
