from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.errors import UsageError
from vcache_cli.quantity import format_size, format_time, parse_age, parse_size, parse_time


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), ("10GiB", 10 * 1024**3), ("500MB", 500_000_000), (" 1.5 kib ", 1536), ("7b", 7)],
)
def test_a_size_is_bytes(text: str, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize(
    "text", ["", "-1", "1e3", "ten", "5 days", "1 GiBB", "\u0661", "1..5", "GB", "9" * 5000]
)
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size") as refused:
        parse_size(text)
    assert "GiB" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0s", 0),
        ("12h", 43_200),
        ("7d", 604_800),
        ("2w", 1_209_600),
        ("9" * 19 + "w", 6_307_200_000),
    ],
)
def test_an_age_is_seconds(text: str, expected: float) -> None:
    assert parse_age(text) == expected


@pytest.mark.parametrize("text", ["", "12", "-1d", "1y", "d", "9" * 20 + "w"])
def test_what_is_no_age_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="is not an age") as refused:
        parse_age(text)
    assert "12h" in refused.value.hint


@given(st.integers(min_value=-62_135_596_800, max_value=253_402_300_799))
def test_a_moment_survives_being_written(seconds: int) -> None:
    assert parse_time(format_time(seconds)) == seconds


@given(st.integers(min_value=0, max_value=2**60))
def test_a_bare_number_is_bytes(size_bytes: int) -> None:
    assert parse_size(str(size_bytes)) == size_bytes


@given(st.integers(0, 2**60))
def test_a_size_keeps_its_first_digits(size_bytes: int) -> None:
    number, unit = format_size(size_bytes).split(" ")
    factor = 1024 ** ["B", "KiB", "MiB", "GiB", "TiB"].index(unit)
    assert abs(float(number) * factor - size_bytes) <= 0.06 * factor
