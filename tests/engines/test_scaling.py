"""What a corpus costs on many machines; and SCALING.md says what the function does."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.engines import ray_engine, scaling
from vcache_cli.engines.scaling import COSTS, Costs, Scale, Work, scale
from vcache_cli.engines.shards import AHEAD, Shards
from vcache_cli.quantity import format_size

PAGE = Path(scaling.__file__).with_name("SCALING.md")
ENTRY_BYTES = 302_656
"""196 tokens of 768 numbers of two bytes, and the header."""
MACHINES = {
    "2 cores, float32": (0.145, 2),
    "2 cores, bfloat16": (0.050, 2),
    "16 cores and an accelerator that keeps up": (0.0165 * 2 / 16, 16),
}
"""Seconds of an item, and cores."""
SIZES = {"10 million": 10_000_000, "1 billion": 1_000_000_000}
NODES = (1, 10, 100, 1000)


def spoken(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:,.1f} h" if hours < 100 else f"{hours / 24:,.0f} days"


def time_rows() -> list[str]:
    rows = []
    for size, items in SIZES.items():
        for machine, (seconds, cores) in MACHINES.items():
            found = [scale(Work(items, seconds, 10.0, ENTRY_BYTES), nodes=each) for each in NODES]
            times = " | ".join(f"{spoken(each.seconds)}{mark(each)}" for each in found)
            core_hours = items * seconds * cores / 3600
            rows.append(f"| {size} | {machine} | {core_hours:,.0f} | {times} |")
    return rows


def mark(found: Scale) -> str:
    return "" if found.limited_by == "work" else " (*)"


def size_rows() -> list[str]:
    rows = []
    for size, items in SIZES.items():
        found = scale(Work(items, 0.05, 10.0, ENTRY_BYTES), nodes=100)
        sizes = (found.store_bytes, found.index_bytes, found.run_bytes)
        told = " | ".join(format_size(each) for each in sizes)
        requests = (found.list_requests, found.read_requests, found.write_requests)
        asked = " | ".join(f"{each:,}" for each in requests)
        rows.append(f"| {size} | {told} | {asked} | {found.manifests} |")
    return rows


def most_rows() -> list[str]:
    return [
        f"| {machine} | {scale(Work(10**9, seconds), nodes=1).most_nodes:,} |"
        for machine, (seconds, _) in MACHINES.items()
    ]


@pytest.mark.parametrize("row", [*time_rows(), *size_rows(), *most_rows()])
def test_the_page_says_what_the_function_does(row: str) -> None:
    assert row in PAGE.read_text(encoding="utf-8").splitlines()


def test_the_page_states_the_rates_that_the_function_takes() -> None:
    text = PAGE.read_text(encoding="utf-8")
    stated = {name: float(number.replace(",", "")) for name, number in re.findall(
        r"^\| `(\w+)` \| ([\d.,]+) \|", text, re.MULTILINE
    )}  # fmt: skip
    assert stated == {name: float(getattr(COSTS, name)) for name in Costs.__slots__}


works = st.builds(
    Work,
    items=st.integers(0, 10**9),
    item_seconds=st.floats(1e-4, 10),
    start_seconds=st.floats(0, 60),
    item_bytes=st.floats(0, 1e7),
    listed=st.integers(0, 10**9),
)


UNWATCHED = replace(COSTS, watched_seconds=0)
"""Nodes that cost their driver nothing."""


@given(works, st.integers(1, 10_000), st.integers(1, 10))
def test_more_machines_never_take_longer(work: Work, nodes: int, times: int) -> None:
    few, many = (scale(work, nodes=each, costs=UNWATCHED) for each in (nodes, nodes * times))
    assert many.seconds <= few.seconds
    assert many.store_bytes == few.store_bytes


@given(works, st.integers(1, 10_000))
def test_no_machine_works_longer_than_it_is_there(work: Work, nodes: int) -> None:
    found = scale(work, nodes=nodes)
    assert 0 <= found.busy <= 1
    assert found.seconds >= work.start_seconds or not work.items
    assert found.node_seconds >= work.items * work.item_seconds * (1 - 1e-9)


@given(works.filter(lambda work: work.items > 0))
def test_one_machine_takes_what_its_items_take(work: Work) -> None:
    alike = replace(work, listed=0)
    costs = Costs(
        listed_per_second=1e15, recorded_per_second=1e15, watched_seconds=0, turn_seconds=0
    )
    expected = costs.join_seconds + alike.start_seconds + alike.items * alike.item_seconds
    assert scale(alike, nodes=1, costs=costs).seconds == pytest.approx(expected)


class Nodes:
    """Shards handed out as `RaySession` does it, on nodes that are alike and tell at once."""

    def __init__(self, items: int, nodes: int, costs: Costs) -> None:
        self.shards: Shards[int] = Shards(costs.shard_items)
        for item in range(items):
            self.shards.add(item, item)
        self.held: list[list[list[int]]] = [[] for _ in range(nodes)]
        self.done = [0] * nodes

    def run(self) -> int:
        """Items of the node that did most."""
        while self.shards.pending:
            for most in range(1, AHEAD + 1):
                for node, held in enumerate(self.held):
                    if shard := self.shards.give(node, most=most, flush=True):
                        held.append(shard.values)
            step = min(len(held[0]) for held in self.held if held)
            for node, held in enumerate(self.held):
                for item in held[0][:step] if held else ():
                    self.shards.done(node, item)
                    self.done[node] += 1
                held[:1] = [held[0][step:]] if held and held[0][step:] else []
        return max(self.done)


@given(st.integers(1, 1_500), st.integers(1, 12), st.integers(1, 40))
def test_the_busiest_machine_is_given_what_is_foretold(items: int, nodes: int, size: int) -> None:
    costs = Costs(1e15, 1e15, 0.0, size, turn_seconds=0, join_seconds=0)
    found = scale(Work(items, 1.0), nodes=nodes, costs=costs)
    assert found.seconds == pytest.approx(Nodes(items, nodes, costs).run())


def test_a_machine_that_is_fast_waits_for_shards() -> None:
    empty = scale(Work(10**6, 0.0), nodes=1)
    assert 10**6 / empty.seconds == pytest.approx(64 / COSTS.turn_seconds, rel=0.05)
    slow = Work(10**6, COSTS.turn_seconds / COSTS.shard_items)
    assert scale(slow, nodes=1).seconds == pytest.approx(10**6 * slow.item_seconds, rel=0.01)


def test_what_is_foretold_is_that_of_the_code() -> None:
    assert (COSTS.shard_items, COSTS.shards_ahead) == (ray_engine._SHARD, AHEAD)


def test_more_machines_than_the_driver_keeps_busy_save_nothing() -> None:
    work = Work(10**8, 0.05)
    most = scale(work, nodes=1).most_nodes
    assert scale(work, nodes=most // 2).limited_by == "work"
    assert scale(work, nodes=most * 2).limited_by == "recording"
    assert scale(work, nodes=most * 2).seconds >= scale(work, nodes=most).seconds
