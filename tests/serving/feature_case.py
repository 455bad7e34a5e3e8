"""Features with known values, and a cache whose disk can be held still."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vcache_cli.serving import VisionFeatureSSDCache
from vcache_cli.store import OsFiles

__all__ = ["MODEL", "Gate", "entries", "features", "held_back", "image", "temps", "with_files"]

MODEL = "/models/qwen"
Array = np.ndarray[Any, Any]


def image(number: int) -> str:
    """An image hash."""
    return f"{number:064x}"


def features(number: int, rows: int = 8) -> Array:
    """Values that tell which entry they are of."""
    return np.arange(rows * 16, dtype=np.float32).reshape(rows, 16) + 10_000 * number


def entries(root: Path) -> list[Path]:
    """What the server would take for entries."""
    return sorted(root.glob("[0-9a-f]/*.safetensors"))


def temps(root: Path) -> list[Path]:
    """What is being written."""
    return sorted((root / ".vcache" / "tmp").glob("*"))


class Gate(OsFiles):
    """A disk whose syncs wait until `opened` is set."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.reached = threading.Event()
        self.fsync = self._fsync  # type: ignore[assignment]

    def _fsync(self, fd: int) -> None:
        self.reached.set()
        assert self.opened.wait(30)
        OsFiles.fsync(fd)


def with_files(cache: VisionFeatureSSDCache, files: OsFiles) -> None:
    """Let the cache write through `files`."""
    assert cache._files is not None
    cache._files._publisher = replace(cache._files._publisher, files=files)


def held_back(cache: VisionFeatureSSDCache) -> Gate:
    """Hold the disk of the cache still."""
    gate = Gate()
    with_files(cache, gate)
    return gate
