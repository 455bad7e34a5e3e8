"""What a corpus costs on many machines, from what a few items cost on one. Pure.

SCALING.md beside this module has tables made by it, and where each rate comes from.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final

__all__ = ["COSTS", "Costs", "Scale", "Work", "scale"]


@dataclass(frozen=True, slots=True)
class Costs:
    """What machines share, and what each item leaves behind; measured, but for `shard_seconds`."""

    listed_per_second: float = 88_000.0
    """Files found by one walk of a local disk."""
    recorded_per_second: float = 11_000.0
    """Outcomes that one driver takes in: a row of the index, a line of the run's file."""
    shard_items: int = 32
    """Items handed to a node at once."""
    shard_seconds: float = 0.005
    """To hand out a shard and take it back; assumed."""
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
    """Until the first item is done: workers start, libraries load."""
    item_bytes: float = 0.0
    """Of an entry."""
    listed: int = 0
    """Items found, those that are there already too; at least `items`."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What the work costs on so many machines."""

    nodes: int
    seconds: float
    """From the start to the last entry."""
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
    """The cost of `work` on `nodes` machines that are alike.

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
    last = min(costs.shard_items, work.items) * work.item_seconds + costs.shard_seconds
    wait = max(seconds["listing"], seconds["recording"]) + last if work.items else 0.0
    wall = work.start_seconds + max(seconds["work"], wait)
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
    rounds = math.ceil(math.ceil(work.items / costs.shard_items) / nodes)
    items = min(rounds * costs.shard_items, work.items)
    return {
        "work": items * work.item_seconds + rounds * costs.shard_seconds,
        "listing": max(work.listed, work.items) / costs.listed_per_second,
        "recording": work.items / costs.recorded_per_second,
    }


def _most_nodes(work: Work, costs: Costs, shards: int) -> int:
    """As many as one driver keeps busy, and no more than there are shards."""
    each = work.item_seconds + costs.shard_seconds / costs.shard_items
    kept = min(costs.listed_per_second, costs.recorded_per_second) * each
    return max(1, min(shards, math.ceil(kept)))
