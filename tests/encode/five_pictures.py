"""Five pictures of five sizes, as the family of a checkpoint prepares them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vcache_cli import registry
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.items import Frames, Pixels
from vcache_cli.preprocess.profiles import TRANSFORMERS_PIL_5
from vcache_cli.protocols import Family

__all__ = ["SIZES", "five_pixels"]

SIZES = ((64, 64), (200, 90), (33, 47), (480, 640), (31, 300))
"""Width and height, pixels."""


def five_pixels(folder: Path) -> list[Pixels]:
    """Soft patterns with noise on them, so that neither resizing nor averaging makes them flat."""
    checkpoint = open_checkpoint(str(folder))
    family: Family = registry.load("families", checkpoint.config["model_type"])
    settings = family.resolve(checkpoint, TRANSFORMERS_PIL_5)
    preprocessor = family.preprocessor(settings, TRANSFORMERS_PIL_5)
    return [preprocessor(_picture(width, height)) for width, height in SIZES]


def _picture(width: int, height: int) -> Frames:
    rng = np.random.default_rng(width)
    across, down = np.meshgrid(np.linspace(0, 5, width), np.linspace(0, 3, height))
    waves = np.stack([np.sin(across + i) * np.cos(down * (i + 1)) for i in range(3)], axis=-1)
    levels = 128 + 90 * waves + rng.normal(0, 25, waves.shape)
    return Frames(levels.clip(0, 255).astype(np.uint8)[None])
