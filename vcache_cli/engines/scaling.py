"""What a corpus costs on many machines, from what a few items cost on one. Pure.

SCALING.md beside this module has tables made by it, where each rate comes from, and real runs on
clusters beside what was foretold of them.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final

from vcache_cli.engines.shards import AHEAD

__all__ = ["COSTS", "Costs", "Scale", "Work", "scale"]


@dataclass(frozen=True, slots=True)
class Costs:
    """What machines share, and what each item leaves behind; measured."""

    listed_per_second: float = 88_000.0
    """Files found by one walk of a local disk."""
    recorded_per_second: float = 8_300.0
    """Items that one driver hands out, and takes in as a line of the run's file, 8 in an answer."""
    watched_seconds: float = 3.5e-8
    """Of the driver, for each item and node: it looks at all of them, once a shard."""
    shard_items: int = 32
    """Items handed to a node at once."""
    shards_ahead: int = AHEAD
    """Shards that a node has at once; each node gets one before any gets a second."""
    turn_seconds: float = 0.012
    """From the end of a shard until its node has the next."""
    join_seconds: float = 2.0
    """To join a cluster, and to have a process on each node."""
    index_bytes: int = 455
    """Of the index, for each item."""
    run_bytes: int = 375
    """Of the run's file, for each item."""
    manifest_bytes: int = 374
    """Of the manifest that a push writes, for each entry."""
    manifest_limit_bytes: int = 1024**3
    """Longest manifest that is read."""
    page_items: int = 1_000
    """Objects that a bucket lists in one request."""


COSTS: Final = Costs()


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done, as one machine does it."""

    items: int
    item_seconds: float
    """Of one machine with all its cores: seconds of a long run by its items."""
    start_seconds: float = 0.0
    """Until the first item is begun, on a machine: the model and libraries load, workers start."""
    item_bytes: float = 0.0
    """Of an entry."""
    listed: int = 0
    """Items found, those that are there already too; at least `items`."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What the work costs on so many machines."""

    nodes: int
    seconds: float
    """From joining the cluster to the last entry."""
    limited_by: str
    """``work``, ``listing`` or ``recording``: what more machines would wait for."""
    node_seconds: float
    """Of all machines, waiting included."""
    busy: float
    """Share of these in which work is done, 0..1."""
    most_nodes: int
    """More machines than these save nothing."""
    shards: int
    store_bytes: int
    index_bytes: int
    run_bytes: int
    manifests: int
    """Pushes that a bucket needs, since a manifest has a limit."""
    list_requests: int
    """Where the corpus is in a bucket; so are the reads."""
    read_requests: int
    write_requests: int
    """Where the store is pushed to a bucket."""

    def as_json(self) -> dict[str, Any]:
        """The object ``scale`` of ``vcache.plan/1``."""
        return {
            **asdict(self),
            "seconds": round(self.seconds, 3),
            "node_seconds": round(self.node_seconds, 3),
            "busy": round(self.busy, 4),
        }


def scale(work: Work, *, nodes: int, costs: Costs = COSTS) -> Scale:
    """The cost of `work` on `nodes` machines that are alike, in a cluster that is there.

    Listing and recording are one driver's, and go on while the nodes work: the longest of the
    three decides, and what is listed last still has to be done.

    >>> one = scale(Work(1_000_000, 0.05), nodes=1)
    >>> ten = scale(Work(1_000_000, 0.05), nodes=10)
    >>> round(one.seconds / ten.seconds, 2), ten.limited_by
    (10.0, 'work')
    >>> scale(Work(1_000_000, 0.05), nodes=10_000).limited_by
    'recording'
    """
    listed = max(work.listed, work.items)
    shards = math.ceil(work.items / costs.shard_items)
    seconds = _seconds(work, nodes, costs)
    limited_by = max(seconds, key=lambda name: seconds[name])  # the first of equals: the work
    wait = max(seconds["listing"], seconds["recording"])
    wait += min(costs.shard_items, work.items) * work.item_seconds
    before, after = costs.join_seconds + work.start_seconds, costs.turn_seconds
    wall = before + max(seconds["work"], wait) + after if work.items else 0.0
    busy = work.items * work.item_seconds
    node_seconds = nodes * wall
    return Scale(
        nodes=nodes,
        seconds=wall,
        limited_by=limited_by,
        node_seconds=node_seconds,
        busy=min(1.0, busy / node_seconds) if node_seconds else 0.0,
        most_nodes=_most_nodes(work, costs, shards),
        shards=shards,
        store_bytes=round(work.items * work.item_bytes),
        index_bytes=listed * costs.index_bytes,
        run_bytes=listed * costs.run_bytes,
        manifests=math.ceil(work.items * costs.manifest_bytes / costs.manifest_limit_bytes),
        list_requests=math.ceil(listed / costs.page_items),
        read_requests=work.items,
        write_requests=work.items,
    )


def _seconds(work: Work, nodes: int, costs: Costs) -> dict[str, float]:
    """Of the node that has most to do, of the listing and of the recording, each for itself."""
    items = _most_items(work.items, nodes, costs)
    return {
        "work": items * _paced_seconds(work, costs),
        "listing": max(work.listed, work.items) / costs.listed_per_second,
        "recording": work.items * (1 / costs.recorded_per_second + nodes * costs.watched_seconds),
    }


def _most_items(items: int, nodes: int, costs: Costs) -> int:
    """Of the node that has most to do, where whoever has done a shard gets the next one."""
    full, last = divmod(items, costs.shard_items)
    rounds = math.ceil(full / nodes)
    if full == nodes * rounds:  # nobody is free sooner: one of them has the rest, too
        return rounds * costs.shard_items + last
    return max(rounds * costs.shard_items, last)


def _paced_seconds(work: Work, costs: Costs) -> float:
    """Of an item on one node: fast ones wait for shards, since they have a few only at once."""
    turn = costs.turn_seconds / costs.shard_items
    return max(work.item_seconds, (work.item_seconds + turn) / costs.shards_ahead)


def _most_nodes(work: Work, costs: Costs, shards: int) -> int:
    """As many as one driver keeps busy, and no more than there are shards."""
    each, own, watched = (
        _paced_seconds(work, costs),
        1 / costs.recorded_per_second,
        costs.watched_seconds,
    )
    # With n nodes an item is recorded in own + n * watched, and has to be done each / n after one.
    recorded = 2 * each / (own + math.sqrt(own**2 + 4 * watched * each))
    kept = min(costs.listed_per_second * each, recorded)
    return max(1, min(shards, math.ceil(kept)))
