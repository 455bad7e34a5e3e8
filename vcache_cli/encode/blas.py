"""BLAS threads: one for each thread that encodes.

Several Python threads on one BLAS thread each beat one on many, and the number of BLAS threads
decides the last bits of a product: so it is one whenever we compute, and what it was otherwise.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

__all__ = ["blas_name", "single_threaded"]


@cache
def _controller() -> Any:  # noqa: ANN401  threadpoolctl ships no types
    """The BLAS libraries of this process; finding them costs milliseconds, so it is done once."""
    import numpy as np  # noqa: F401  its BLAS must be loaded to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@cache
def _is_limited_by_thread() -> bool:
    """OpenMP keeps a limit for each thread, everything else one for the process."""
    return any(library.get("threading_layer") == "openmp" for library in _controller().info())


def _take_control() -> None:
    """Let this thread set limits: newer threadpoolctl silently ignores all but one thread."""
    for library in _controller().lib_controllers:
        clear = getattr(library, "clear_controlling_thread", None)
        if clear is not None:
            clear(force=True)


class _Limit:
    """How many threads are inside, and what the first one found."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: Any = None

    def enter(self) -> Any:  # noqa: ANN401  threadpoolctl ships no types
        with self._lock:
            _take_control()
            mine = _controller().limit(limits=1)
            if not self._inside:
                self._before = mine
            self._inside += 1
            return mine

    def leave(self, mine: Any) -> None:  # noqa: ANN401  as above
        with self._lock:
            self._inside -= 1
            _take_control()
            if _is_limited_by_thread():
                mine.restore_original_limits()
            elif not self._inside:
                self._before.restore_original_limits()


_LIMIT: Final = _Limit()


@contextmanager
def single_threaded() -> Iterator[None]:
    """BLAS uses the calling thread alone. Any number of threads may be inside at once.

    Where the limit is the process's, the last thread to leave takes it back.
    """
    mine = _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave(mine)


def blas_name() -> str:
    """Library, version and kernels of the BLAS that numpy uses, such as ``openblas 0.3.30 Zen``."""
    found = _controller().info()
    if not found:
        return "unknown"  # such as Accelerate, which is no thread pool of its own
    fields = (found[0].get(name) for name in ("internal_api", "version", "architecture"))
    return " ".join(str(field) for field in fields if field)
