"""What this machine computes with, learnt without loading a library."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["has_bfloat16_units", "has_nvidia", "usable_processors"]

_BFLOAT16_FLAGS: Final = frozenset({"amx_bf16", "avx512_bf16"})
"""As the Linux kernel names them: tiles, and dot products of pairs."""

_NVIDIA: Final = ("/dev/nvidiactl", "/dev/dxg")
"""Devices of the driver, on Linux and in its Windows subsystem."""


def usable_processors() -> int:
    """Processors that this process may use, which can be fewer than the machine has.

    ``PYTHON_CPU_COUNT`` says another number, as it does to Python itself from 3.13 on.
    """
    told = os.environ.get("PYTHON_CPU_COUNT", "")
    if told.isdecimal() and int(told):
        return int(told)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def has_nvidia() -> bool:
    """Whether there is a driver of an NVIDIA GPU; other accelerators of Linux are not used."""
    return sys.platform == "linux" and any(Path(each).exists() for each in _NVIDIA)


@cache
def has_bfloat16_units() -> bool:
    """Whether this processor multiplies matrices of bfloat16 faster than of float32."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    lines = (line.partition(":") for line in text.splitlines())
    flags = next((value.split() for name, _, value in lines if name.strip() == "flags"), [])
    return not _BFLOAT16_FLAGS.isdisjoint(flags)
