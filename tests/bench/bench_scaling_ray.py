"""What is foretold of a cluster, against runs on one: the peer is the forecast.

Items wait, so that machines which share this one's cores are as fast as one that has them alone.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

from tests.bench.measure import report
from tests.bench.pictures import skip_without
from tests.ray.waiting import Run, WaitingWork, warm_on
from vcache_cli.engines.scaling import COSTS, Work, scale

MODEL = Path(__file__).resolve().parents[2] / "samples/tiny-siglip"
"""So small that cores which nodes share are no matter."""
ROUNDS = 1
NODES = (1, 2, 4)
SIZES = tuple(int(each) for each in os.environ.get("VCACHE_BENCH_PICTURES", "64,200").split(","))
"""Of a corpus; the first two, on one node, tell how long an item takes."""
UNDER_WAY = replace(COSTS, join_seconds=0.0)
"""From when the nodes are there."""


def make_pictures(folder: Path) -> list[Path]:
    """Small ones, each of its own content."""
    folder.mkdir()
    rng = np.random.default_rng(12)
    found = [folder / f"{number:06d}.png" for number in range(max(SIZES))]
    for path in found:
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8)).save(path)
    return found


def measured(runs: list[Run]) -> Work:
    """What an item takes, and what is spent once, by two runs on one node."""
    few, many = runs[:2]
    item = (many.work_seconds - few.work_seconds) / (many.items - few.items)
    once = few.work_seconds - few.items * item - COSTS.turn_seconds
    return Work(0, item, max(0.0, once))


def main() -> None:
    """A line for each corpus on several nodes; runs on one tell what an item takes."""
    skip_without("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 100 * 1024**2}
    cluster: Any = Cluster(
        initialize_head=True, head_node_args={**node, "include_dashboard": False}
    )
    try:
        with TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
            base = Path(name)
            pictures = make_pictures(base / "corpus")
            warm_on(cluster.address, pictures[:32], base / "warm-up", model=MODEL, work=WaitingWork)
            work: Work | None = None
            for nodes in NODES:
                for _ in range(nodes - len(cluster.list_all_nodes())):
                    cluster.add_node(**node)
                runs = [
                    warm_on(
                        cluster.address,
                        pictures[:size],
                        base / f"{nodes}-{size}",
                        model=MODEL,
                        work=WaitingWork,
                    )
                    for size in SIZES
                ]
                work = work or measured(runs)
                for run in runs if nodes > 1 else ():
                    tell(run, replace(work, items=run.items), nodes)
    finally:
        cluster.shutdown()


def tell(run: Run, work: Work, nodes: int) -> None:
    """One line: real and foretold."""
    foretold = scale(work, nodes=nodes, costs=UNDER_WAY)
    if run.shards != foretold.shards:
        raise SystemExit(f"{run.shards} shards, {foretold.shards} foretold")
    title = f"warm of {run.items} items on {nodes} Ray node(s) / foretold"
    report(title, run.work_seconds, foretold.seconds, unit="s", rounds=ROUNDS)


if __name__ == "__main__":
    main()
