"""Whatever is lost, and whenever: each input gets one result."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.engines.shards import AHEAD, Shard, Shards


def filled(count: int, *, size: int = 4) -> Shards[int]:
    shards: Shards[int] = Shards(size)
    for number in range(count):
        shards.add(number, number)
    return shards


def handed(shard: Shard[int] | None) -> list[int]:
    return shard.values if shard else []


def test_shards_are_cut_by_order_alone() -> None:
    shards = filled(10)
    assert [handed(shards.give(worker)) for worker in range(3)] == [[0, 1, 2, 3], [4, 5, 6, 7], []]
    assert handed(shards.give(3, flush=True)) == [8, 9]


def test_a_worker_has_no_more_than_it_needs_to_stay_busy() -> None:
    shards = filled(100)
    assert [bool(shards.give(0)) for _ in range(AHEAD + 1)] == [True] * AHEAD + [False]


def test_only_what_is_unfinished_is_handed_out_again_and_alone() -> None:
    shards = filled(12)
    shards.give(0)
    assert shards.done(0, 2)
    assert shards.lose(0) == []
    again = shards.give(1)
    assert handed(again) == [0, 1, 3]
    assert shards.is_retried(1)
    assert shards.give(1) is None


def test_a_result_that_comes_twice_counts_once() -> None:
    shards = filled(4)
    shards.give(0)
    assert [shards.done(0, 1), shards.done(0, 1), shards.done(1, 2)] == [True, False, False]
    assert shards.pending == 3


def test_an_input_that_kills_every_worker_is_the_only_one_given_up() -> None:
    shards, worker, given_up = filled(40), 0, []
    while shards.pending:
        shard = shards.give(worker, flush=True)
        if shard is None or 17 in shard.values:
            given_up += shards.lose(worker)
        else:
            for name in shard.values:
                shards.done(worker, name)
        worker += 1
        assert worker < 200
    assert given_up == [17]


@given(st.integers(0, 60), st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 9))))
def test_each_input_is_done_or_given_up_once(
    count: int, steps: list[tuple[int, bool, int]]
) -> None:
    """Workers come, are lost with what they have not told, and others go on."""
    shards, ended = filled(count, size=7), []
    had: dict[int, list[int]] = {number: [] for number in range(4)}
    for worker, lost, results in [*steps, *((number % 4, False, 99) for number in range(400))]:
        had[worker] += handed(shards.give(worker, flush=True))
        ended += [name for name in had[worker][:results] if shards.done(worker, name)]
        del had[worker][:results]
        if lost:
            ended += shards.lose(worker)
            had[worker] = []
    assert sorted(ended) == list(range(count))
    assert shards.pending == 0


def test_what_nobody_has_can_be_dropped() -> None:
    shards = filled(10)
    shards.give(0)
    shards.drop_all()
    assert shards.pending == 4
    assert shards.give(1, flush=True) is None
