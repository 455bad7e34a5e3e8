"""Many threads at once, switching as often as they can."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run ``work(number)`` in so many threads from one moment on; raises what any of them does."""
    together, interval = threading.Barrier(count), sys.getswitchinterval()

    def run(number: int) -> None:
        together.wait()
        work(number)

    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(count) as pool:
            for done in [pool.submit(run, number) for number in range(count)]:
                done.result()
    finally:
        sys.setswitchinterval(interval)
