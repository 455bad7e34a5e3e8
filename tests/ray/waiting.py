"""Work that takes the same time on a machine of any speed: each item waits before it is encoded."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from vcache_cli import WarmOptions
from vcache_cli.assemble import cluster, open_warm
from vcache_cli.assemble.cluster import ShardWork
from vcache_cli.assemble.shard_flow import BucketFlow, ShardFlow
from vcache_cli.items import Pixels
from vcache_cli.media import sources
from vcache_cli.pipeline import EncodeBatch, Prepared
from vcache_cli.pipeline.encoding import Written

__all__ = ["ITEM_SECONDS", "Run", "WaitingWork", "warm_on"]

ITEM_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class WaitingWork(ShardWork):
    """One encoder on each node waits for `ITEM_SECONDS` for each item."""

    @contextmanager
    def opened(self) -> Iterator[ShardFlow | BucketFlow]:
        with ShardWork.opened(self) as flow:
            parts = flow.warm._parts
            flow.warm._parts = replace(parts, encode=_Waiting(parts.encode))  # type: ignore[arg-type]
            yield flow


@dataclass(frozen=True, slots=True)
class _Waiting:
    encode: EncodeBatch

    def bucket(self, pixels: Pixels) -> Hashable:
        return self.encode.bucket(pixels)

    def __call__(self, batch: Sequence[Prepared]) -> list[Written]:
        time.sleep(ITEM_SECONDS * len(batch))
        return self.encode(batch)


@dataclass(frozen=True, slots=True)
class Run:
    """What a run on a cluster took."""

    items: int
    shards: int
    """Cut, and handed out."""
    start_seconds: float
    """Until a node was there to work."""
    work_seconds: float
    """From then on, until the last Outcome was known."""


def warm_on(
    address: str, corpus: Sequence[Path], store: Path, *, model: Path, work: type[ShardWork]
) -> Run:
    """Warm `corpus` on the cluster at `address`; all of it is stored."""
    options = WarmOptions(engine="ray", ray_address=address, isolation="thread")
    begun = time.perf_counter()
    setattr(cluster, "ShardWork", work)  # noqa: B010  mypy: a class, not a variable
    try:
        source = sources([os.fspath(path) for path in corpus])
        with open_warm(source, store=store, model=os.fspath(model), options=options) as run:
            ready = time.perf_counter()
            items = sum(1 for _ in run)
            done = time.perf_counter()
            session = vars(run)["_pass"]._session
    finally:
        setattr(cluster, "ShardWork", ShardWork)  # noqa: B010
    if run.summary().fields["items"]["stored"] != items:
        raise AssertionError("an item was not stored")
    return Run(items, session._shards._cut, ready - begun, done - ready)
