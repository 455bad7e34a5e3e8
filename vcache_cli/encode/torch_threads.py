"""Threads of torch: one for each thread that encodes on a CPU."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

__all__ = ["one_thread"]

_ASKING: Final = threading.Lock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes in the calling thread alone. Any number of threads may be inside at once.

    torch keeps a number for each thread, and one for threads to come.
    """
    import torch

    with _ASKING:  # the first to ask does so while nothing is set
        outside = _outside()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(outside)


@cache
def _outside() -> int:
    import torch

    return int(torch.get_num_threads())
