"""The backend that suits the machine, and why another cannot be had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from vcache_cli.encode import choose_backend
from vcache_cli.errors import ModelError


@dataclass(frozen=True)
class FakeBackend:
    """Never computes."""

    name: str
    score: int = 0
    reason: str | None = None

    def unavailable(self) -> str | None:
        return self.reason

    def preference(self) -> int:
        assert self.reason is None, "asked only where available"
        return self.score

    def merit(self) -> str:
        return "fake"

    def default_dtype(self) -> str:
        return "F32"

    def ops(self, compute_dtype: str) -> Any:  # noqa: ANN401  as the socket says
        raise NotImplementedError


SLOW = FakeBackend("slow", 1)
FAST = FakeBackend("fast", 2)
GONE = FakeBackend("gone", 9, "not installed; install the extra `gone`")


def test_the_most_preferred_of_the_usable_is_taken() -> None:
    assert choose_backend(None, [SLOW, GONE, FAST]) is FAST


def test_a_name_decides_over_preference() -> None:
    assert choose_backend("slow", [SLOW, FAST]) is SLOW


def test_a_named_backend_that_is_unusable_says_why() -> None:
    with pytest.raises(ModelError, match="cannot be used here: not installed; install the extra"):
        choose_backend("gone", [SLOW, GONE])


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(ModelError, match="among slow, fast, got `nope`"):
        choose_backend("nope", [SLOW, FAST])


def test_none_usable_tells_every_reason() -> None:
    with pytest.raises(ModelError, match="`gone`: not installed") as caught:
        choose_backend(None, [GONE])
    assert caught.value.exit_code == 15
