"""Work of bench_isolation, in a module that worker processes can import."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vcache_cli.items import Pixels
from vcache_cli.media import PillowDecoder
from vcache_cli.protocols import Loss, Preprocessor

__all__ = ["Decode", "Mortal"]


@dataclass(frozen=True)
class Decode:
    """A file to pixels, as the preprocessor of a family makes them."""

    decoder: PillowDecoder
    made: Preprocessor

    def __call__(self, path: Path) -> Pixels:
        return self.made(self.decoder.decode(path.read_bytes()))


@dataclass(frozen=True)
class Mortal:
    """Gives its input back; dies of a negative one."""

    def __call__(self, value: int) -> int:
        if value < 0:
            os.abort()
        return value

    def noting(self, _note: Callable[[object], None]) -> Callable[[int], int]:
        return self

    def lost(self, value: int, _loss: Loss, _noted: object) -> int:
        return value
