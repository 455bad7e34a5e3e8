from __future__ import annotations

import pytest

from vcache_cli.errors import PartialFailureError, UsageError
from vcache_cli.pipeline import ErrorPolicy


def test_any_number_of_failures_is_borne_by_default() -> None:
    ErrorPolicy.parse("skip", None).check(failed=1_000, done=1_000)


def test_on_error_fail_bears_none() -> None:
    policy = ErrorPolicy.parse("fail", None)
    policy.check(failed=0, done=10)
    with pytest.raises(PartialFailureError, match="1 item failed, and the run was to end at"):
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


def test_what_gave_up_is_said_in_numbers_and_with_the_option_that_decided() -> None:
    with pytest.raises(PartialFailureError) as none:
        ErrorPolicy.parse("fail", None).check(failed=1, done=1)
    assert "--on-error skip" in none.value.hint
    with pytest.raises(PartialFailureError, match="3 items failed, at most 2 were to"):
        ErrorPolicy.parse("skip", "2").check(failed=3, done=100)
    with pytest.raises(PartialFailureError, match=r"2 of 200 items failed, at most 0\.5% were to"):
        ErrorPolicy.parse("skip", "0.5%").check(failed=2, done=200)
