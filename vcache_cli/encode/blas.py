"""BLAS threads: one for each thread that encodes.

Several Python threads on one BLAS thread each beat one on many, and the number of BLAS threads
decides the last bit of a product: so it is one whenever we compute, and what it was otherwise.
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

_LOCK: Final = threading.Lock()
_INSIDE: Final[list[Any]] = []
"""One element for each thread inside `single_threaded`; the limit that all of them share."""


@cache
def _controller() -> Any:  # noqa: ANN401  threadpoolctl ships no types
    """The BLAS libraries of this process; finding them costs milliseconds, so it is done once."""
    import numpy as np  # noqa: F401  its BLAS must be loaded to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def single_threaded() -> Iterator[None]:
    """BLAS uses the calling thread alone. Any number of threads may be inside at once.

    The limit is the process's own: it is set by the first thread to enter and taken back by the
    last one to leave.
    """
    with _LOCK:
        limit = _INSIDE[0] if _INSIDE else _controller().limit(limits=1)
        _INSIDE.append(limit)
    try:
        yield
    finally:
        with _LOCK:
            _INSIDE.pop()
            if not _INSIDE:
                limit.restore_original_limits()


def blas_name() -> str:
    """Library, version and kernels of the BLAS that numpy uses, such as ``openblas 0.3.30 Zen``."""
    found = _controller().info()
    if not found:
        return "unknown"  # such as Accelerate, which is no thread pool of its own
    fields = (found[0].get(name) for name in ("internal_api", "version", "architecture"))
    return " ".join(str(field) for field in fields if field)
