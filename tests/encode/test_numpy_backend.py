from __future__ import annotations

import pytest

from vcache_cli.encode import numpy_backend, numpy_ops
from vcache_cli.errors import ModelError


def test_numpy_computes_in_float32_only() -> None:
    with pytest.raises(ModelError, match="expected to compute in F32, got BF16"):
        numpy_backend.BACKEND.ops("BF16")


def test_what_is_known_early_is_what_the_operations_say() -> None:
    early, ops = numpy_backend.BACKEND.ops("F32"), numpy_ops.NumpyOps()
    assert early.device == ops.device
    assert early.versions == ops.versions
    assert (early.concurrency, early.pass_tokens) == (ops.concurrency, ops.pass_tokens)


def test_an_operation_that_is_none_is_an_error() -> None:
    with pytest.raises(AttributeError, match=r"NumpyOps.*convolve"):
        numpy_backend.BACKEND.ops("F32").convolve()
