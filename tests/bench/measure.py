"""Measure two ways of doing the same work side by side, and say so in one line of JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable

__all__ = ["compare", "machine", "report"]

Work = Callable[[], object]


def machine() -> str:
    """What the figures were measured on."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"


def compare(name: str, ours: Work, peer: Work, *, unit: str = "us", rounds: int = 200) -> float:
    """Run A B A B, print the medians and their ratio; the ratio, ours to the peer's.

    The first tenth of the rounds is a warm-up and does not count. `unit` is ``us``, ``ms`` or
    ``s``; figures are times, so less is better.
    """
    times: tuple[list[float], list[float]] = [], []
    warm_up = max(1, rounds // 10)
    for number in range(warm_up + rounds):
        for work, taken in zip((ours, peer), times, strict=True):
            seconds = _timed(work)
            if number >= warm_up:
                taken.append(seconds)
    return report(name, *map(statistics.median, times), unit=unit, rounds=rounds)


def _timed(work: Work) -> float:
    begun = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - begun
    del result  # freeing it is not the work
    return seconds


def report(name: str, ours: float, peer: float, *, unit: str, rounds: int) -> float:
    """Print one line for two times in seconds, or sizes in bytes for ``MiB``; their ratio."""
    scale = {"us": 1e6, "ms": 1e3, "s": 1.0, "MiB": 2.0**-20}[unit]
    line = {
        "name": name,
        "ours": round(ours * scale, 3),
        "peer": round(peer * scale, 3),
        "ratio": round(ours / peer, 3),
        "unit": unit,
        "n": rounds,
        "machine": machine(),
    }
    print(json.dumps(line), flush=True)
    return ours / peer
