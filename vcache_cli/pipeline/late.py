"""Workers that are hired for the first item that needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from vcache_cli.protocols import Session

__all__ = ["LateSession"]

In = TypeVar("In")
Out = TypeVar("Out")


class LateSession(Generic[In, Out]):
    """A session that begins with its first input. Used by one thread.

    Args:
        begin: opens it; whoever calls sees to its end.
    """

    def __init__(self, begin: Callable[[], Session[In, Out]]) -> None:
        self._begin = begin
        self._session: Session[In, Out] | None = None

    @property
    def full(self) -> bool:
        """See `Session`."""
        return self._session is not None and self._session.full

    @property
    def pending(self) -> int:
        """See `Session`."""
        return self._session.pending if self._session else 0

    def submit(self, value: In) -> None:
        """See `Session`; raises what its begin does."""
        if self._session is None:
            self._session = self._begin()
        self._session.submit(value)

    def take(self, *, wait: bool) -> list[Out]:
        """See `Session`."""
        return self._session.take(wait=wait) if self._session else []
