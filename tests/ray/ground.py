"""What a test has: a cluster, a corpus, the store of a run on this machine, and the command."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.cli.running import Result, Vcache

__all__ = ["EPOCH", "Ground", "RayCluster", "RayNode", "entries", "kill_workers"]

EPOCH = "1700000000"
"""In place of the clock, so that whole files can be compared."""


class RayNode(Protocol):
    """As Ray's own."""

    all_processes: dict[str, list[Any]]


class RayCluster(Protocol):
    """As `ray.cluster_utils.Cluster`."""

    address: str
    worker_nodes: set[RayNode]

    def remove_node(self, node: RayNode, allow_graceful: bool = ...) -> None: ...  # noqa: FBT001  Ray's


@dataclass(frozen=True)
class Ground:
    """One test's."""

    cluster: RayCluster
    pictures: Path
    local: Path
    """The store of a run over `pictures` on this machine."""
    model: Path
    folder: Path
    vcache: Vcache

    @property
    def store(self) -> Path:
        """Of runs on the cluster; not there yet."""
        return self.folder / "store"

    @property
    def total(self) -> int:
        """Pictures."""
        return len(list(self.pictures.iterdir()))

    def words(self, *sources: Path) -> list[str]:
        """A command line that warms `store` on the cluster."""
        command = ("warm", *(sources or (self.pictures,)), "--model", self.model)
        where = ("--store", self.store, "--engine", "ray", "--ray-address", self.cluster.address)
        return [str(each) for each in (*command, *where)]

    def warm(self, *words: str) -> Result:
        """Warm `pictures` on the cluster, in this process."""
        return self.vcache(*self.words(), *words)


def entries(store: Path) -> dict[str, bytes]:
    """Every entry's file, whole."""
    return {path.name: path.read_bytes() for path in store.glob("??/*.safetensors")}


def kill_workers(node: RayNode) -> None:
    """As where a machine is lost: of a node alone, workers would first do what they have."""
    parent = str(node.all_processes["raylet"][0].process.pid)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text(encoding="utf-8")
        except OSError:
            continue
        if text.rpartition(")")[2].split()[1] == parent:
            os.kill(int(stat.parent.name), signal.SIGKILL)
