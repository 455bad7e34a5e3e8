"""Whether a tower takes the pixels that a preprocessor makes: asked before pictures are opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vcache_cli.digest import digest_json
from vcache_cli.errors import EncodeError, ModelError
from vcache_cli.items import Frames
from vcache_cli.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.encode import FingerprintMemo, TowerEncoder
    from vcache_cli.protocols import Preprocessor
    from vcache_cli.recipe import Recipe

__all__ = ["check_fit"]

_GREY_SIDE: Final = 64
"""Pixels."""


def check_fit(
    checkpoint: Checkpoint,
    recipe: Recipe,
    make_preprocessor: Callable[[], Preprocessor],
    encoder: TowerEncoder,
    memo: FingerprintMemo | None,
) -> None:
    """One refusal, instead of a failure for each picture.

    A recipe says all that decides it, so one that fitted is not tried again: a run without work
    makes no preprocessor, and needs none of its libraries.

    Raises:
        ModelError: they do not fit, or the preprocessor cannot be made.
    """
    key = digest_json({"fits": recipe.digest, "version": __version__})
    if memo and memo.get(key) == recipe.digest:
        return
    _check_pixels(checkpoint, make_preprocessor(), encoder)
    if memo:
        memo.remember(key, recipe.digest)


def _check_pixels(
    checkpoint: Checkpoint, preprocessor: Preprocessor, encoder: TowerEncoder
) -> None:
    made, taken = preprocessor.pixel_shape, encoder.pixel_shape
    if made and taken and made != taken:
        raise ModelError(
            f"{checkpoint.folder}: the vision tower of config.json takes {_spelled(taken)} pixels, "
            f"preprocessor_config.json makes {_spelled(made)}",
            hint="the two files do not belong together",
        )
    if taken is None:
        _try_grey(checkpoint, preprocessor, encoder)


def _try_grey(checkpoint: Checkpoint, preprocessor: Preprocessor, encoder: TowerEncoder) -> None:
    """Where no one shape tells: whether the tower takes what a grey picture becomes."""
    import numpy as np

    grey = Frames(np.full((1, _GREY_SIDE, _GREY_SIDE, 3), 128, np.uint8))
    try:
        encoder.costs([preprocessor(grey)])
    except EncodeError as error:
        raise ModelError(f"{checkpoint.folder}: {error.message}", hint=error.hint) from error


def _spelled(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
