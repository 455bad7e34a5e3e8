"""From a model and its options to what a run does with videos."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from vcache_cli import registry
from vcache_cli.errors import ModelError
from vcache_cli.pipeline.clips import ClipWork

if TYPE_CHECKING:
    from typing import Final

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.profile import Profile
    from vcache_cli.protocols import ClipDecoder, ClipFamily, ClipPreprocessor
    from vcache_cli.recipe import Recipe

__all__ = ["ClipParts", "load_clips", "make_clip_work"]

_MAX_FILE_BYTES: Final = 16 * 1024**3
"""Of a video file; it is never in memory as a whole."""


@dataclass(frozen=True, slots=True)
class ClipParts:
    """A model's way with videos."""

    recipe: Recipe
    preprocessor: ClipPreprocessor


def load_clips(
    checkpoint: Checkpoint, profile: Profile, recipe: Recipe, options: WarmOptions
) -> ClipParts | None:
    """What `recipe` becomes for videos; None where the family takes none.

    Raises:
        ModelError: frames were asked for in some way, and the model takes no videos, or has
            settings for them that cannot be followed.
    """
    wanted: dict[str, Any] = {
        name: getattr(options, name) for name in ("fps", "num_frames", "max_frames")
    }
    asked = any(value is not None for value in wanted.values())
    if recipe.family not in registry.names("clips"):
        if asked:
            raise ModelError(f"models of family `{recipe.family}` take no videos here")
        return None
    family: ClipFamily = registry.load("clips", recipe.family)
    try:
        settings = family.resolve(checkpoint, profile, wanted)
        preprocessor = family.preprocessor(settings, profile)
    except ModelError:
        if asked:
            raise
        return None  # its pictures can be warmed all the same
    made = replace(recipe, family_revision=family.revision, settings={"clip": settings})
    return ClipParts(made, preprocessor)


def make_clip_work(
    parts: ClipParts | None, profile: Profile, options: WarmOptions
) -> ClipWork | None:
    """The work on videos; None where they are skipped."""
    if parts is None:
        return None
    decoder = partial(_decoder, profile, options.max_pixels)
    return ClipWork(parts.recipe, parts.preprocessor, decoder, _MAX_FILE_BYTES)


def _decoder(profile: Profile, max_pixels: int) -> ClipDecoder:
    from vcache_cli.media.video import VideoDecoder  # loads PyAV

    return VideoDecoder(profile, max_pixels=max_pixels)
