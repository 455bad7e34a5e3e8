"""A few items decoded and encoded as a warm would, to learn how long the rest takes."""

from __future__ import annotations

import itertools
import random
import time
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from vcache_cli import engines
from vcache_cli.assemble.batching import batch_size_of, concurrency_of
from vcache_cli.assemble.lookup import NOTHING_KNOWN, NoMemo
from vcache_cli.assemble.passes import make_hire, make_triage
from vcache_cli.engines.kept import KeptEngine
from vcache_cli.entry import Entry, Provenance
from vcache_cli.pipeline import EncodeBatch, WarmParts, WarmPass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.assemble.recipes import LoadedRecipe
    from vcache_cli.items import FileStat, WarmItem
    from vcache_cli.outcome import Failure
    from vcache_cli.protocols import Seen

__all__ = ["LIMIT_SECONDS", "Sample", "Trial", "try_items"]

LIMIT_SECONDS: Final = 3.0
"""No further item is begun so long after the first was done."""
_MAX_ITEMS: Final = 128
_MAX_ITEM_BYTES: Final = 32 * 1024**2
"""A larger file could take longer than the whole trial may."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What was learnt of the time that items take. Nothing was written for it."""

    items: int
    first_seconds: float
    """Until the first one was done: workers start, libraries load."""
    seconds: float
    """Until the last one was."""

    def seconds_for(self, items: int) -> float:
        """What so many would take, about; the start included.

        >>> Trial(11, 1.0, 2.0).seconds_for(101)
        11.0
        """
        if self.items < 2:
            return self.seconds * items
        return round(self.first_seconds + self.item_seconds * max(0, items - 1), 3)

    @property
    def item_seconds(self) -> float:
        """What each takes once all has started; of a single one, all that it took."""
        if self.items < 2:
            return self.seconds
        return (self.seconds - self.first_seconds) / (self.items - 1)

    @property
    def start_seconds(self) -> float:
        """What is spent once, however many items there are."""
        return max(0.0, self.first_seconds - self.item_seconds) if self.items > 1 else 0.0

    def as_json(self) -> dict[str, Any]:
        """The object `sample` of ``vcache.plan/1``."""
        return {"items": self.items, "seconds": round(self.seconds, 3)}


@dataclass(slots=True)
class Sample:
    """Some of the items that come by, each as likely as any other; the same for the same ones."""

    items: list[WarmItem] = field(default_factory=list)
    seen: int = 0
    left_out: int = 0
    """Files so large that one could take all the time."""
    _random: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311  no secret

    def add(self, item: WarmItem) -> None:
        """Keep it, or not."""
        if sum(each.size_bytes for each in item.files) > _MAX_ITEM_BYTES:
            self.left_out += 1
            return
        self.seen += 1
        if len(self.items) < _MAX_ITEMS:
            self.items.append(item)
        elif (place := self._random.randrange(self.seen)) < _MAX_ITEMS:
            self.items[place] = item


def try_items(
    items: Sequence[WarmItem],
    loaded: LoadedRecipe,
    options: WarmOptions,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Trial | None:
    """Do what a warm would do with `items`, until the time is over; None where there are none.

    The first goes alone: with others, it would be done when the whole of its batch is.
    """
    started = clock()
    with ExitStack() as held:
        tried, rest = _pass(loaded, options, held), iter(items)
        runs = itertools.islice(rest, 1), _in_time(rest, clock)
        done = [clock() - started for run in runs for _ in tried.run(run)]
    return Trial(len(done), done[0], done[-1]) if done else None


def _in_time(items: Iterator[WarmItem], clock: Callable[[], float]) -> Iterator[WarmItem]:
    ends = clock() + LIMIT_SECONDS
    for item in items:
        yield item
        if clock() >= ends:
            return


def _pass(loaded: LoadedRecipe, options: WarmOptions, held: ExitStack) -> WarmPass:
    """As that of a warm, but that nothing is known, there or written; `held` ends its workers."""
    nothing, absent = _Nowhere(), NOTHING_KNOWN[1]
    return WarmPass(
        WarmParts(
            triage=make_triage(loaded, nothing, absent),
            hire=make_hire(loaded, options, absent, held),
            encode=EncodeBatch(
                recipe=loaded.recipe,
                target=loaded.target,
                encoder=loaded.encoder,
                make_provenance=lambda: Provenance(recipe=loaded.recipe.as_json()),
                submit=_written,
            ),
            ledger=nothing,
            touch=nothing.touch,
            encoders=held.enter_context(
                KeptEngine(lambda: engines.ThreadEngine(concurrency_of(loaded), ahead=1))
            ),
            batch_size=batch_size_of(loaded, options),
            most_ahead=1,
        )
    )


def _written(entry: Entry) -> Future[int]:
    """As if it were."""
    future: Future[int] = Future()
    future.set_result(entry.file_bytes)
    return future


class _Nowhere(NoMemo):
    """A ledger that remembers nothing."""

    def remember_unchanged(self, path: str, stat: FileStat, seen: Seen) -> None:
        pass

    def remember_known(self, source_sha256: str, context: str, key: str) -> None:
        pass

    def remember_failure(self, source_sha256: str, context: str, failure: Failure) -> None:
        pass

    def add_entry(self, entry: Entry, size_bytes: int) -> None:
        pass

    def add_source(self, key: str, path: str) -> None:
        pass

    def commit(self) -> None:
        pass

    def touch(self, key: str) -> None:
        pass
