"""BLAS has one thread while we compute, whichever Python thread asks, and what it had after."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from vcache_cli.encode import blas


def limits() -> list[int]:
    """BLAS threads of each library that is loaded."""
    return [library["num_threads"] for library in blas._controller().info()]


@pytest.fixture
def four_threads() -> Iterator[list[int]]:
    """BLAS that had four threads before; skipped where numpy's BLAS keeps no count."""
    if not limits():
        pytest.skip("this BLAS is no thread pool")
    blas._take_control()
    with blas._controller().limit(limits=4):
        yield limits()


def test_one_thread_inside_and_as_before_after(four_threads: list[int]) -> None:
    with blas.single_threaded():
        assert set(limits()) == {1}
    assert limits() == four_threads


def test_a_thread_that_is_not_the_first_is_obeyed_too(four_threads: list[int]) -> None:
    """By itself threadpoolctl lets one thread set limits, and ignores the others without a word."""

    def inside() -> list[int]:
        with blas.single_threaded():
            return limits()

    with blas.single_threaded():
        pass
    with ThreadPoolExecutor(1) as pool:
        assert set(pool.submit(inside).result()) == {1}
    assert limits() == four_threads


def test_the_limit_holds_until_the_last_thread_has_left(four_threads: list[int]) -> None:
    entered, may_leave = threading.Event(), threading.Event()

    def first() -> None:
        with blas.single_threaded():
            entered.set()
            may_leave.wait(30)

    other = threading.Thread(target=first)
    other.start()
    assert entered.wait(30)
    with blas.single_threaded():
        may_leave.set()
        other.join()
        assert set(limits()) == {1}
    assert limits() == four_threads


def test_an_error_inside_lifts_the_limit(four_threads: list[int]) -> None:
    with pytest.raises(ZeroDivisionError), blas.single_threaded():
        _ = 1 / 0
    assert limits() == four_threads


def test_the_blas_has_a_name() -> None:
    assert blas.blas_name()
