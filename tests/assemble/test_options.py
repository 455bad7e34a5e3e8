from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from vcache_cli import Stage, WarmOptions
from vcache_cli.errors import UsageError


def test_the_defaults_are_those_of_the_command_line() -> None:
    options = WarmOptions()
    assert (options.stage, options.target) == (Stage.FEATURES, "native")
    assert (options.dtype, options.stored_dtype) == ("bfloat16", "BF16")
    assert (options.on_error, options.on_full) == ("skip", "stop")
    assert (options.backend, options.workers, options.max_errors) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "stored"), [("bfloat16", "BF16"), ("float16", "F16"), ("float32", "F32")]
)
def test_a_dtype_has_the_name_that_people_and_files_use(name: str, stored: str) -> None:
    assert WarmOptions(dtype=name).stored_dtype == stored


def test_an_unknown_dtype_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="no dtype `int3`; available: bfloat16, float16, float32"):
        WarmOptions(dtype="int3")


@pytest.mark.parametrize("value", [0, -1])
def test_a_number_below_one_is_refused_by_its_name(value: int) -> None:
    with pytest.raises(UsageError, match=f"workers is {value}"):
        WarmOptions(workers=value)
    with pytest.raises(UsageError, match=f"batch_size is {value}"):
        WarmOptions(batch_size=value)
    with pytest.raises(UsageError, match=f"max_pixels is {value}"):
        WarmOptions(max_pixels=value)
    with pytest.raises(UsageError, match=f"max_file_bytes is {value}"):
        WarmOptions(max_file_bytes=value)


def test_choices_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        WarmOptions().workers = 2  # type: ignore[misc]  # what is tested
