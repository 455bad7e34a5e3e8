"""Memory of arrays that are gone, for those to come.

Memory fresh from the system costs a fault a page, and again when it is given back: for the large
arrays of a forward pass that is more than what is computed with them.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING
from weakref import finalize

import numpy as np

if TYPE_CHECKING:
    from typing import Final

    from numpy.typing import NDArray

__all__ = ["empty"]

_KEPT: Final = 16
"""Blocks of memory that a thread keeps for later: about as many as one layer uses."""
_LEAST_BYTES: Final = 65_536
"""What is smaller costs nothing."""
_HUGE_BYTES: Final = 4 << 20
"""From here on numpy asks the system for large pages."""


class _Blocks(threading.local):
    """Memory that nothing uses, of one thread; the longest unused first."""

    def __init__(self) -> None:
        self.free: list[memoryview] = []


_BLOCKS: Final = _Blocks()


def empty(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """float32 of any value. Its memory is used again when the array and all its views are gone."""
    size_bytes = 4 * math.prod(shape)
    if size_bytes < _LEAST_BYTES:
        return np.empty(shape, np.float32)
    free = _BLOCKS.free
    block = _taken(free, size_bytes)
    if block is None:
        block = np.empty(max(size_bytes, _HUGE_BYTES), np.uint8).data
    # Views of it, and theirs, have this array as their base, and not what is below: no array.
    array = np.frombuffer(block, np.float32, math.prod(shape))
    finalize(array, _give, free, block).atexit = False
    return array.reshape(shape)


def _taken(free: list[memoryview], size_bytes: int) -> memoryview | None:
    """The smallest that is large enough and not far too large; of several the last one used."""
    most = max(_HUGE_BYTES, 2 * size_bytes)
    sizes = [(block.nbytes, -place) for place, block in enumerate(free)]
    fitting = [each for each in sizes if size_bytes <= each[0] <= most]
    return free.pop(-min(fitting)[1]) if fitting else None


def _give(free: list[memoryview], block: memoryview) -> None:
    free.append(block)
    del free[:-_KEPT]
