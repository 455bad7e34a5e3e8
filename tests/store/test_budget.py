"""Room is asked for before writing, and what is in flight counts."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.errors import StoreFullError
from vcache_cli.store import Budget


def test_without_limits_everything_fits() -> None:
    budget = Budget()
    budget.reserve(10**15)
    budget.settle(10**15)
    assert (budget.used_bytes, budget.in_flight_bytes) == (10**15, 0)


def test_the_cap_counts_what_is_there_and_what_is_in_flight() -> None:
    budget = Budget(max_size_bytes=100, used_bytes=50)
    budget.reserve(30)
    with pytest.raises(StoreFullError, match="21 B needed, 20 B left") as caught:
        budget.reserve(21)
    assert caught.value.exit_code == 13
    budget.reserve(20)


def test_free_space_counts_what_is_in_flight() -> None:
    budget = Budget(min_free_bytes=100, free_bytes=lambda: 150)
    budget.reserve(40)
    with pytest.raises(StoreFullError, match=r"100 B must stay free .*: 11 B needed, 110 B free"):
        budget.reserve(11)


def test_a_full_disk_is_called_full_and_a_limit_names_its_option() -> None:
    with pytest.raises(StoreFullError, match=r"disk is full: 5\.0 KiB needed, 4\.0 KiB free"):
        Budget(min_free_bytes=0, free_bytes=lambda: 4096).reserve(5120)
    with pytest.raises(StoreFullError) as low:
        Budget(min_free_bytes=4096, free_bytes=lambda: 8192).reserve(5120)
    assert low.value.hint.startswith("lower --min-free")
    with pytest.raises(StoreFullError) as capped:
        Budget(max_size_bytes=4096).reserve(5120)
    assert capped.value.hint.startswith("raise --max-size")


def test_a_failure_gives_its_room_back() -> None:
    budget = Budget(max_size_bytes=10)
    budget.reserve(10)
    budget.settle(10, written_bytes=0)
    budget.reserve(10)
    budget.settle(10)
    assert budget.used_bytes == 10


def test_replacing_an_entry_takes_only_the_difference() -> None:
    budget = Budget(max_size_bytes=30, used_bytes=10)
    budget.reserve(15)
    budget.settle(15, replaced_bytes=10)
    assert budget.used_bytes == 15


def test_a_prune_makes_room() -> None:
    budget = Budget(max_size_bytes=10, used_bytes=10)
    budget.freed(4)
    budget.reserve(4)


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(0, 100))
def test_the_cap_is_never_exceeded(sizes: list[int], cap: int) -> None:
    budget, held = Budget(max_size_bytes=cap), list[int]()
    for size in sizes:
        try:
            budget.reserve(size)
        except StoreFullError:
            if held:
                budget.settle(held.pop(), written_bytes=0)
        else:
            held.append(size)
        assert budget.used_bytes + budget.in_flight_bytes == sum(held) <= cap


def test_threads_do_not_share_the_same_room() -> None:
    budget = Budget(max_size_bytes=100)
    granted: list[int] = []

    def take() -> None:
        for _ in range(50):
            try:
                budget.reserve(1)
            except StoreFullError:
                return
            granted.append(1)
            budget.settle(1)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(granted) == budget.used_bytes == 100
