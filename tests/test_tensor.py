"""A tensor survives as bytes: every dtype, bfloat16 too, and nobody can write to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from vcache_cli.tensor import ITEMSIZE_BYTES, Tensor, bfloat16_bits, empty_buffer

if TYPE_CHECKING:
    from numpy.typing import NDArray

DTYPES = ["?", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"]
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(np.dtype(dtype), hnp.array_shapes(min_dims=0, min_side=0))
)
BITS = st.integers(0, 2**32 - 1)


@given(ARRAYS)
def test_an_array_comes_back_bit_for_bit(array: NDArray[Any]) -> None:
    again = Tensor.from_numpy(array).numpy()
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    assert again.tobytes() == array.tobytes()


@given(ARRAYS)
def test_nobody_writes_to_a_tensor(array: NDArray[Any]) -> None:
    assert not Tensor.from_numpy(array).bits().flags.writeable


def test_an_array_that_is_not_contiguous_is_stored_in_row_major_order() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T
    assert np.array_equal(Tensor.from_numpy(array).numpy(), array)


def test_big_endian_elements_are_stored_as_little_endian() -> None:
    array = np.arange(4, dtype=">f4")
    tensor = Tensor.from_numpy(array)
    assert tensor.dtype == "F32"
    assert np.array_equal(tensor.numpy(), array)


@given(BITS)
def test_bfloat16_rounds_to_the_nearest_and_ties_to_even(bits: int) -> None:
    value = np.array([bits], np.uint32).view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        got = Tensor.from_numpy(value, "BF16").numpy()
    if np.isnan(value[0]):
        assert np.isnan(got[0])
        return
    below = bits & 0xFFFF0000
    low = bits & 0xFFFF
    up = low > 0x8000 or (low == 0x8000 and (bits >> 16) & 1)
    expected = below + (0x10000 if up else 0)
    assert int(got.view(np.uint32)[0]) == expected


@given(st.integers(0, 2**16 - 1))
def test_a_bfloat16_value_survives_widening_and_narrowing(bits: int) -> None:
    tensor = Tensor("BF16", (1,), bits.to_bytes(2, "little"))
    wide: NDArray[np.float32] = tensor.numpy()
    again = int(bfloat16_bits(wide)[0])
    if np.isnan(wide[0]):
        assert again & 0x7F80 == 0x7F80
        assert again & 0x007F
    else:
        assert again == bits


def test_float32_narrows_to_half_as_numpy_does() -> None:
    array = np.linspace(-3, 3, 7, dtype=np.float32)
    assert np.array_equal(Tensor.from_numpy(array, "F16").numpy(), array.astype(np.float16))


def test_only_float32_is_narrowed_to_bfloat16() -> None:
    with pytest.raises(ValueError, match="only float32"):
        Tensor.from_numpy(np.zeros(2, np.int64), "BF16")


def test_a_dtype_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="complex64"):
        Tensor.from_numpy(np.zeros(2, np.complex64))


@pytest.mark.parametrize(
    ("dtype", "shape", "size"), [("F32", (2, 2), 15), ("F32", (), 0), ("F4", (1,), 1)]
)
def test_bytes_that_do_not_fit_the_shape_are_refused(
    dtype: str, shape: tuple[int, ...], size: int
) -> None:
    with pytest.raises(ValueError, match=r"takes|unknown"):
        Tensor(dtype, shape, bytes(size))


@pytest.mark.parametrize("dtype", sorted(ITEMSIZE_BYTES))
def test_every_dtype_has_an_array(dtype: str) -> None:
    itemsize_bytes = ITEMSIZE_BYTES[dtype]
    assert Tensor(dtype, (3,), bytes(3 * itemsize_bytes)).bits().itemsize == itemsize_bytes


@pytest.mark.needs_mlx
@given(st.lists(st.integers(0, 2**16 - 1), min_size=1))
def test_mlx_keeps_bfloat16_bit_for_bit(values: list[int]) -> None:
    mx = pytest.importorskip("mlx.core")
    data = np.array(values, "<u2").tobytes()
    array = Tensor("BF16", (len(values),), data).mlx()
    assert array.dtype == mx.bfloat16
    assert np.array(array.view(mx.uint16)).tobytes() == data


def test_a_buffer_has_the_size_asked_for_and_can_be_written() -> None:
    buffer = empty_buffer(5)
    buffer[:] = b"abcde"
    assert bytes(buffer) == b"abcde"
    assert len(empty_buffer(0)) == 0
