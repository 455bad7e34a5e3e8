"""What a machine of a cluster does with the shards that it is given: a pass that is fed."""

from __future__ import annotations

import os
import pickle
import queue
import threading
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from vcache_cli.errors import VcacheError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from vcache_cli.protocols import Loss

__all__ = ["Flow", "Reply", "Station", "StationWork"]

In = TypeVar("In")
In_contra = TypeVar("In_contra", contravariant=True)
Out = TypeVar("Out")
Out_co = TypeVar("Out_co", covariant=True)

_PATIENCE_SECONDS: Final = 0.05
"""For the next shard, before what is in flight is finished without it."""
_LINGER_SECONDS: Final = 0.1
"""For more results, before those that are there are sent, while there is work for them."""
_LONGEST_SECONDS: Final = 5.0
"""After which an empty answer says that all is well."""
_ENOUGH_RESULTS: Final = 32
"""That are sent at once, as a shard's worth: its driver can hand out another."""


class Flow(Protocol[In_contra, Out_co]):
    """A pass that is open where it runs. Calls come from the thread that opened it, but `stop`."""

    def run(self, values: Iterable[In_contra]) -> Iterator[Out_co]:
        """The result of each value, in any order; may be called again, for more."""
        ...

    def stop(self) -> None:
        """Take no further value; what is in flight is finished. Any thread."""
        ...


class StationWork(Protocol[In_contra, Out]):
    """Work on shards, opened where it is done. Picklable."""

    def among(self, workers: int) -> StationWork[In_contra, Out]:
        """The same, for one of so many workers."""
        ...

    def opened(self) -> AbstractContextManager[Flow[In_contra, Out]]:
        """Open what it needs on this machine.

        Raises:
            VcacheError: something is not there, or is not the same.
        """
        ...

    def name(self, value: In_contra) -> Hashable:
        """Tells an input from the others."""
        ...

    def name_of(self, result: Out) -> Hashable:
        """The name of the input whose result it is."""
        ...

    def again(self, result: Out) -> Out:
        """The result of an input that another worker had before, which was lost with it."""
        ...

    def lost(self, value: In_contra, loss: Loss, noted: Any) -> Out:  # noqa: ANN401  its own
        """See `Isolable`: a value that took several workers with it."""
        ...


@dataclass(frozen=True, slots=True)
class Reply(Generic[Out]):
    """What a station says when it is asked."""

    results: list[Out] = field(default_factory=list)
    error: VcacheError | None = None
    """What ended it, if not its caller."""
    ended: bool = False
    """True once nothing more will come."""


class Station:
    """Runs the work in a thread of its own, on shards as they come. Any thread.

    Args:
        work: pickled.
        cpus: processors that it may use.
    """

    def __init__(self, work: bytes, cpus: int) -> None:
        os.environ["PYTHON_CPU_COUNT"] = str(cpus)  # of processes that start here, too
        self._work = work
        self._shards: queue.SimpleQueue[list[Any] | None] = queue.SimpleQueue()
        self._results: list[Any] = []
        self._owed = 0  # inputs without a result
        self._news = threading.Condition()
        self._flow: Flow[Any, Any] | None = None
        self._error: VcacheError | None = None
        self._ended = self._stopped = False
        threading.Thread(target=self._work_on, name="station", daemon=True).start()

    def opened(self) -> Reply[Any]:
        """Return once it can work, or cannot."""
        with self._news:
            self._news.wait_for(lambda: self._flow or self._ended)
        return Reply([], self._error, self._ended)

    def feed(self, values: list[Any]) -> None:
        """Work on a shard, after those that it has."""
        with self._news:
            self._owed += len(values)
        self._shards.put(values)

    def take(self) -> Reply[Any]:
        """Results since the last call; waits for some, but not for ever."""
        with self._news:
            self._news.wait_for(lambda: self._results or self._ended, _LONGEST_SECONDS)
            if self._results and not self._ended:
                self._news.wait_for(self._worth_telling, _LINGER_SECONDS)
            results, self._results = self._results, []
            return Reply(results, self._error, self._ended)

    def _worth_telling(self) -> bool:
        return self._ended or not self._owed or len(self._results) >= _ENOUGH_RESULTS

    def stop(self) -> None:
        """Take no further input; what is in flight is finished, and then it ends."""
        with self._news:
            self._stopped = True
            if self._flow:
                self._flow.stop()
        self._shards.put(None)

    def _work_on(self) -> None:
        error: VcacheError | None = None
        try:
            work: StationWork[Any, Any] = pickle.loads(self._work)  # noqa: S301  our driver's
            with work.opened() as flow:
                self._tell_open(flow)
                while (shard := self._shards.get()) is not None and not self._stopped:
                    for result in flow.run(self._chained(shard)):
                        self._post(result)
        except VcacheError as raised:
            error = raised
        except BaseException as raised:  # noqa: BLE001  told to the driver, which ends the run
            text = "".join(traceback.format_exception(raised)).strip()
            error = VcacheError(f"a worker failed: {text}")
        with self._news:
            self._error, self._ended = error, True
            self._news.notify_all()

    def _tell_open(self, flow: Flow[Any, Any]) -> None:
        with self._news:
            self._flow = flow
            self._news.notify_all()

    def _chained(self, shard: list[Any]) -> Iterator[Any]:
        """Its inputs and those of shards that follow in time, so that nothing runs dry between."""
        following: list[Any] | None = shard
        while following is not None and not self._stopped:
            yield from following
            try:
                following = self._shards.get(timeout=_PATIENCE_SECONDS)
            except queue.Empty:
                return
        self._shards.put(None)

    def _post(self, result: object) -> None:
        with self._news:
            self._results.append(result)
            self._owed -= 1
            self._news.notify_all()
