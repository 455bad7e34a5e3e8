"""Room for what is about to be written: cap and minimum free space, bytes in flight counted."""

from __future__ import annotations

import threading
from collections.abc import Callable

from vcache_cli.errors import StoreFullError
from vcache_cli.quantity import format_size

__all__ = ["Budget"]


class Budget:
    """What may still be written. Any thread.

    Args:
        max_size_bytes: most bytes of all entries together; None for no cap.
        min_free_bytes: least bytes that stay free on the filesystem; None for no minimum.
        used_bytes: bytes of the entries that are there already.
        free_bytes: asks the filesystem; needed where there is a minimum.
    """

    def __init__(
        self,
        *,
        max_size_bytes: int | None = None,
        min_free_bytes: int | None = None,
        used_bytes: int = 0,
        free_bytes: Callable[[], int] | None = None,
    ) -> None:
        self._max_size_bytes = max_size_bytes
        self._min_free_bytes = min_free_bytes
        self._used_bytes = used_bytes
        self._in_flight_bytes = 0
        self._free_bytes = free_bytes
        self._lock = threading.Lock()

    @property
    def used_bytes(self) -> int:
        """Bytes of the entries that are there, those in flight not among them."""
        return self._used_bytes

    @property
    def in_flight_bytes(self) -> int:
        """Bytes reserved and not settled."""
        return self._in_flight_bytes

    def reserve(self, size_bytes: int) -> None:
        """Set `size_bytes` aside, to be settled when they are written, or have failed to be.

        Raises:
            StoreFullError: they do not fit; nothing is set aside.
        """
        with self._lock:
            self._check_cap(size_bytes)
            self._check_free(size_bytes)
            self._in_flight_bytes += size_bytes

    def settle(
        self, size_bytes: int, *, written_bytes: int | None = None, replaced_bytes: int = 0
    ) -> None:
        """End a reservation of `size_bytes`.

        Args:
            size_bytes: as reserved.
            written_bytes: what is there now; all of it where None, 0 after a failure.
            replaced_bytes: of the file that was there before.
        """
        with self._lock:
            self._in_flight_bytes -= size_bytes
            self._used_bytes += size_bytes if written_bytes is None else written_bytes
            self._used_bytes -= replaced_bytes

    def freed(self, size_bytes: int) -> None:
        """Count bytes that a prune removed."""
        with self._lock:
            self._used_bytes = max(0, self._used_bytes - size_bytes)

    def _check_cap(self, size_bytes: int) -> None:
        if self._max_size_bytes is None:
            return
        left_bytes = self._max_size_bytes - self._used_bytes - self._in_flight_bytes
        if size_bytes > left_bytes:
            raise StoreFullError(
                f"the store's cap of {format_size(self._max_size_bytes)} is reached: "
                f"{_need(size_bytes, left_bytes)} left",
                hint="raise --max-size, or make room with `vcache prune --max-size SIZE`",
            )

    def _check_free(self, size_bytes: int) -> None:
        if self._min_free_bytes is None or self._free_bytes is None:
            return
        free_bytes = self._free_bytes() - self._in_flight_bytes
        if size_bytes > free_bytes:
            raise StoreFullError(
                f"the disk is full: {_need(size_bytes, free_bytes)} free",
                hint="free some space on it, or run `vcache prune --max-size SIZE`",
            )
        left_bytes = free_bytes - self._min_free_bytes
        if size_bytes > left_bytes:
            raise StoreFullError(
                f"{format_size(self._min_free_bytes)} must stay free on the disk: "
                f"{_need(size_bytes, free_bytes)} free",
                hint="lower --min-free, or make room with `vcache prune --max-size SIZE`",
            )


def _need(size_bytes: int, left_bytes: int) -> str:
    return f"{format_size(size_bytes)} needed, {format_size(max(0, left_bytes))}"
