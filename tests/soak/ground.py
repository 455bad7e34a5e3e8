"""What a soak works on: pictures that all differ, and a store that nobody else writes to."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PIL import Image

from vcache_cli import WarmOptions, warm

__all__ = ["OPTIONS", "Ground", "lay_ground"]

SIDE_PX: Final = 24
OPTIONS: Final = WarmOptions(isolation="thread", workers=1)


@dataclass(frozen=True)
class Ground:
    """Where everything lies, and when it ends."""

    folder: Path
    model: Path
    ends_at: float
    """Seconds since 1970."""
    seed: int = 0
    uses_commands: bool = True
    """Work is done by `vcache` in processes of its own, where that can be."""

    @property
    def corpus(self) -> Path:
        """Pictures."""
        return self.folder / "corpus"

    @property
    def truth(self) -> Path:
        """A store of them all, which is only read."""
        return self.folder / "truth"

    @property
    def store(self) -> Path:
        """The store that everyone works on."""
        return self.folder / "store"

    def events(self, role: str) -> Path:
        """Where a role appends what it did, a line each."""
        return self.folder / f"{role}.jsonl"

    def pictures(self) -> Sequence[Path]:
        """All pictures, in order."""
        return sorted(self.corpus.iterdir())


def lay_ground(ground: Ground, *, pictures: int) -> None:
    """Make the pictures, the truth, and a store that is as full to begin with."""
    rng = random.Random(ground.seed)
    ground.corpus.mkdir(parents=True)
    for number in range(pictures):
        pixels = rng.randbytes(SIDE_PX * SIDE_PX * 3)
        picture = Image.frombytes("RGB", (SIDE_PX, SIDE_PX), pixels)
        picture.save(ground.corpus / f"{number:04d}.png")
    for store in (ground.truth, ground.store):
        sources = [str(ground.corpus)]
        for outcome in warm(sources, store=store, model=ground.model, options=OPTIONS):
            if outcome.failure:
                raise AssertionError(outcome)
