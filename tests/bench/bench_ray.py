"""What a Ray cluster costs: a warm on its one node, against the same warm in this process."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.bench.measure import report
from tests.bench.pictures import SMALL, make_jpegs, make_siglip, skip_without
from vcache_cli import WarmOptions
from vcache_cli.assemble import open_warm
from vcache_cli.encode.processor import usable_processors
from vcache_cli.media import sources

ROUNDS = int(os.environ.get("VCACHE_BENCH_ROUNDS", "5"))
PICTURES = int(os.environ.get("VCACHE_BENCH_PICTURES", "160"))
"""Five shards; of one, a core has a second's work and more."""


def timed(corpus: Path, model: Path, options: WarmOptions, store: Path) -> tuple[float, float]:
    """Seconds of the work alone, and with all that comes before it and after."""
    begun = time.perf_counter()
    made = open_warm(sources([str(corpus)]), store=store, model=str(model), options=options)
    with made as run:
        ready = time.perf_counter()
        count = sum(1 for _ in run)
        done = time.perf_counter()
    if run.summary().fields["items"]["stored"] != count:
        raise SystemExit("a picture was not stored")
    return done - ready, time.perf_counter() - begun


def main() -> None:
    """Two lines: the work, and the whole of the runs."""
    skip_without("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    cpus = usable_processors()
    node = {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": 100 * 1024**2}
    cluster: Any = Cluster(initialize_head=True, head_node_args=node)
    here = WarmOptions()
    there = replace(here, engine="ray", ray_address=cluster.address)
    times: dict[str, list[tuple[float, float]]] = {"here": [], "there": []}
    try:
        with TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
            base = Path(name)
            corpus, model = base / "corpus", base / "model"
            make_jpegs(corpus, PICTURES)
            make_siglip(model, **SMALL)
            for number in range(ROUNDS + 1):
                for where, options in (("there", there), ("here", here)):
                    taken = timed(corpus, model, options, base / f"{where}-{number}")
                    if number:  # the first is a warm-up
                        times[where].append(taken)
    finally:
        cluster.shutdown()
    for place, told in enumerate(("the work alone", "joining and loading included")):
        ours, peer = (
            statistics.median(each[place] for each in times[where]) for where in ("there", "here")
        )
        title = f"warm of {PICTURES} JPEGs on a Ray node / in this process, {told}"
        report(title, ours, peer, unit="s", rounds=ROUNDS)


if __name__ == "__main__":
    main()
