"""A run on two nodes hands out the shards that were foretold, and is no faster than foretold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ray.ground import Ground, RayNode
from tests.ray.waiting import ITEM_SECONDS, WaitingWork, warm_on
from vcache_cli.engines.scaling import COSTS, Work, scale

pytestmark = [pytest.mark.needs_ray, pytest.mark.slow, pytest.mark.processes]


def test_two_nodes_are_handed_the_shards_that_a_dry_run_foretells(
    ground: Ground, second_node: RayNode
) -> None:
    words = ("warm", ground.pictures, "--model", ground.model, "--store", ground.store)
    foretold = ground.vcache(*words, "--dry-run", "--nodes", "2", "--json").document["scale"]
    run = warm_on(
        ground.cluster.address,
        [ground.pictures],
        ground.store,
        model=ground.model,
        work=WaitingWork,
    )
    assert run.items == foretold["write_requests"] == ground.total
    assert run.shards == foretold["shards"]
    # However shards fall, one node has as many as this, and none of them takes less than it waits.
    least = replace(COSTS, turn_seconds=0.0, join_seconds=0.0)
    work = scale(Work(run.items, ITEM_SECONDS), nodes=2, costs=least)
    assert run.work_seconds >= work.seconds
