"""The work of a worker, with a line in a file for every item that its encoder is given."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tests.patience import until
from vcache_cli.assemble.cluster import ShardWork
from vcache_cli.assemble.shard_flow import BucketFlow, ShardFlow
from vcache_cli.items import Pixels
from vcache_cli.pipeline import EncodeBatch, Prepared
from vcache_cli.pipeline.encoding import Written

__all__ = ["CountedWork", "DeadlyWork", "encoded"]


@dataclass(frozen=True, slots=True)
class CountedWork(ShardWork):
    """Slow, too, so that a worker can be killed in the middle."""

    @contextmanager
    def opened(self) -> Iterator[ShardFlow | BucketFlow]:
        with ShardWork.opened(self) as flow:
            parts = flow.warm._parts
            counted = _Counted(parts.encode, _log_of(self.store))
            flow.warm._parts = replace(parts, encode=counted)  # type: ignore[arg-type]
            yield flow


@dataclass(frozen=True, slots=True)
class DeadlyWork(ShardWork):
    """One item of it ends the process that encodes it: the one whose name begins with ``0005``."""

    @contextmanager
    def opened(self) -> Iterator[ShardFlow | BucketFlow]:
        with ShardWork.opened(self) as flow:
            parts = flow.warm._parts
            flow.warm._parts = replace(parts, encode=_Deadly(parts.encode))  # type: ignore[arg-type]
            yield flow


@dataclass(frozen=True, slots=True)
class _Deadly:
    encode: EncodeBatch

    def bucket(self, pixels: Pixels) -> Hashable:
        return self.encode.bucket(pixels)

    def __call__(self, batch: Sequence[Prepared]) -> list[Written]:
        if any(os.path.basename(each.trace.item.path).startswith("0005") for each in batch):
            os._exit(139)
        return self.encode(batch)


@dataclass(frozen=True, slots=True)
class _Counted:
    encode: EncodeBatch
    log: str

    def bucket(self, pixels: Pixels) -> Hashable:
        return self.encode.bucket(pixels)

    def __call__(self, batch: Sequence[Prepared]) -> list[Written]:
        with open(self.log, "a", encoding="ascii") as lines:
            lines.write("".join(f"{each.key} {os.getpid()}\n" for each in batch))
        until(self.both_begun)
        time.sleep(0.08 * len(batch))
        return self.encode(batch)

    def both_begun(self) -> bool:
        """A worker may start long after the other, which would be done by then."""
        with open(self.log, encoding="ascii") as lines:
            return len({line.split()[1] for line in lines}) > 1


def _log_of(store: str) -> str:
    return f"{os.fspath(store)}.encoded"


def encoded(store: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """The key of each item that was encoded, as often as it was, and the process that did it."""
    with open(_log_of(os.fspath(store)), encoding="ascii") as lines:
        return [(key, process) for key, process in map(str.split, lines)]
