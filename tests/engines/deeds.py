"""Work for engines, in a module that other processes can import."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vcache_cli.protocols import Loss


def double(value: int) -> int:
    return value * 2


def until_there(path: str) -> bool:
    """Works until the file at `path` is there."""
    for _ in range(60_000):
        if os.path.exists(path):
            return True
        time.sleep(0.005)
    return False


def slow(path: str) -> None:
    """Leaves a line, and takes its time."""
    with Path(path).open("a", encoding="ascii") as file:
        file.write("x")
    time.sleep(0.05)


def fault(_value: object) -> int:
    raise KeyError("a fault of ours")


def whole_process(_value: object) -> int:
    """The process that it runs in."""
    return os.getpid()


def loaded(_value: object) -> set[str]:
    """Top-level names of what its process has loaded."""
    return {name.partition(".")[0] for name in sys.modules}


def zeros(count: int) -> dict[str, Any]:
    """Arrays of `count` float32 and of a few more."""
    return {"values": np.full(count, 7, np.float32), "grid": np.arange(3), "text": "some"}


@dataclass(frozen=True)
class Deadly:
    """Work that some inputs kill: those are the names of ways to die."""

    def __call__(self, value: str) -> str:
        return die(value) if value in WAYS else f"did {value}"

    def noting(self, note: Callable[[object], None]) -> Callable[[str], str]:
        def noted(value: str) -> str:
            note(f"about to {value}")
            return self(value)

        return noted

    def lost(self, value: str, loss: Loss, noted: object) -> str:
        return f"lost {value}: {loss.kind}: {noted}"


@dataclass(frozen=True)
class Frail:
    """As `Deadly`, and knows nothing of isolation."""

    def __call__(self, value: str) -> str:
        return die(value)


def die(way: str) -> str:
    """Ends this process, or tries to."""
    return WAYS[way](way)


def _crash(_way: str) -> str:
    ctypes.string_at(0)
    return "survived"


def _abort(_way: str) -> str:
    os.abort()


def _leave(_way: str) -> str:
    os._exit(0)


def _loop(_way: str) -> str:
    """Holds the interpreter's lock, as a decoder in C would."""
    libc = ctypes.PyDLL(None)
    libc.sleep(1000)
    while True:
        pass


def _spin(_way: str) -> str:
    while True:
        pass


def _eat(_way: str) -> str:
    eaten = []
    while True:
        eaten.append(bytearray(b"x" * (8 << 20)))


def _killed(_way: str) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)
    return "survived"


def _term(_way: str) -> str:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
    return "survived"


WAYS: dict[str, Callable[[str], str]] = {
    "crash": _crash,
    "abort": _abort,
    "leave": _leave,
    "loop": _loop,
    "spin": _spin,
    "eat": _eat,
    "killed": _killed,
    "term": _term,
}
