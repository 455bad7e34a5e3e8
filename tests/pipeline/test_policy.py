from __future__ import annotations

import pytest

from vcache_cli.errors import PartialFailureError, UsageError
from vcache_cli.pipeline import ErrorPolicy


def test_any_number_of_failures_is_borne_by_default() -> None:
    ErrorPolicy.parse("skip", None).check(failed=1_000, done=1_000)


def test_on_error_fail_bears_none() -> None:
    policy = ErrorPolicy.parse("fail", None)
    policy.check(failed=0, done=10)
    with pytest.raises(PartialFailureError, match="1 items failed"):
        policy.check(failed=1, done=10)


def test_a_number_is_the_most_that_is_borne() -> None:
    policy = ErrorPolicy.parse("skip", "2")
    policy.check(failed=2, done=2)
    with pytest.raises(PartialFailureError):
        policy.check(failed=3, done=100)


def test_a_share_is_asked_once_it_means_something() -> None:
    policy = ErrorPolicy.parse("skip", "10%")
    policy.check(failed=1, done=2)
    policy.check(failed=2, done=20)
    with pytest.raises(PartialFailureError, match="3 of 20"):
        policy.check(failed=3, done=20)


@pytest.mark.parametrize("text", ["", "many", "-1", "1.5", "101%", "-1%", "%"])
def test_what_is_neither_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="neither a number"):
        ErrorPolicy.parse("skip", text)
