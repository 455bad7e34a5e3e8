"""Single flight: callers that want the same thing at the same time share one computation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["SingleFlight"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Flight(Generic[V]):
    """One computation in the air."""

    __slots__ = ("done", "error", "owner", "result")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.owner = threading.get_ident()
        self.result: tuple[V] | None = None
        self.error: Exception | None = None


class SingleFlight(Generic[K, V]):
    """Runs at most one computation per key at a time. Any thread; no lock is held meanwhile.

    Pickles as one with nothing in the air.
    """

    __slots__ = ("_flights", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._flights: dict[K, _Flight[V]] = {}

    def __reduce__(self) -> tuple[type[SingleFlight[K, V]], tuple[()]]:
        return type(self), ()

    def __len__(self) -> int:
        """Computations in the air."""
        return len(self._flights)

    def run(self, key: K, compute: Callable[[], V]) -> V:
        """What `compute` gives: our own, or that of a caller who began earlier.

        Exceptions reach everyone who waited. Where the first caller was interrupted
        (KeyboardInterrupt, SystemExit), one of the waiting takes over. A computation that asks
        for its own key runs again, rather than wait for itself.

        Raises:
            TypeError: `key` is not hashable.
        """
        while True:
            with self._lock:
                flight = self._flights.get(key)
                if flight is None:
                    ours = self._flights[key] = _Flight()
            if flight is None:
                return self._lead(key, ours, compute)
            if flight.owner == threading.get_ident():
                return compute()
            flight.done.wait()
            if flight.error is not None:
                raise flight.error
            if flight.result is not None:
                return flight.result[0]

    def _lead(self, key: K, flight: _Flight[V], compute: Callable[[], V]) -> V:
        try:
            value = compute()
            flight.result = (value,)
        except Exception as error:
            flight.error = error  # for those who wait; ours is raised as it came
            raise
        finally:
            with self._lock:
                del self._flights[key]
            flight.done.set()
        return value
