"""An engine whose workers stay from one session to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from vcache_cli.protocols import Engine, Session

__all__ = ["KeptEngine"]

In = TypeVar("In")
Out = TypeVar("Out")


class KeptEngine:
    """Starts workers once, for work that is always the same; enter it, and they end with it.

    Args:
        make: makes what starts them, at the first call.
    """

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._held = ExitStack()
        self._session: Session[Any, Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.close()

    @contextmanager
    def session(self, work: Callable[[In], Out]) -> Iterator[Session[In, Out]]:
        """The session of the first call; leaving it ends nothing."""
        if self._session is None:
            self._session = self._held.enter_context(self._make().session(work))
        yield self._session
