"""From a model and its options to what a run does with videos."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from vcache_cli import registry
from vcache_cli.assemble.servers import MLX_VLM
from vcache_cli.errors import ModelError
from vcache_cli.outcome import Failure
from vcache_cli.pipeline.clips import ClipReader, ClipWork, FrameWork, no_clips
from vcache_cli.protocols.clips import ClipTarget, StillsFamily, StillsTarget

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.clips import Planner
    from vcache_cli.profile import Profile
    from vcache_cli.protocols import ClipDecoder, ClipFamily, ClipPreprocessor, WarmTarget
    from vcache_cli.recipe import Recipe

__all__ = [
    "ClipParts",
    "StillsParts",
    "frames_asked",
    "load_clips",
    "make_clip_work",
    "make_reader",
]

_MAX_FILE_BYTES: Final = 16 * 1024**3
"""Of a video file; it is never in memory as a whole."""
_SHARE_OF_PIXELS: Final = 3 / 8
"""Of a picture's most pixels for a frame: a decoder holds several frames. 67 million by default."""


@dataclass(frozen=True, slots=True)
class ClipParts:
    """A model's way with videos."""

    recipe: Recipe
    preprocessor: ClipPreprocessor


@dataclass(frozen=True, slots=True)
class StillsParts:
    """A model's way with videos of which the server makes pictures."""

    recipe: Recipe
    """Names which frames are taken; no entry is of it."""
    planner: Planner


def load_clips(
    checkpoint: Checkpoint,
    profile: Profile,
    recipe: Recipe,
    options: WarmOptions,
    target: WarmTarget,
) -> ClipParts | StillsParts | Failure:
    """What `recipe` becomes for videos, or why they are skipped.

    Raises:
        ModelError: frames were asked for in some way, and videos would be skipped.
    """
    wanted: dict[str, Any] = {
        name: getattr(options, name) for name in ("fps", "num_frames", "max_frames")
    }
    try:
        return _clip_parts(checkpoint, profile, recipe, wanted, target)
    except ModelError as error:
        if any(value is not None for value in wanted.values()):
            raise
        return no_clips(error.message)  # its pictures can be warmed all the same


def _clip_parts(
    checkpoint: Checkpoint,
    profile: Profile,
    recipe: Recipe,
    wanted: Mapping[str, Any],
    target: WarmTarget,
) -> ClipParts | StillsParts:
    family = _family(recipe.family)
    if isinstance(family, StillsFamily) and _takes_stills(target):
        sampling = family.resolve(wanted)
        made = replace(recipe, settings={"stills": sampling, "pictures": recipe.settings})
        return StillsParts(made, family.planner(sampling))
    if not (isinstance(target, ClipTarget) and target.takes_clips):
        raise ModelError(f"target `{target.name}` takes no videos here")
    if recipe.encoder and recipe.encoder.tower == MLX_VLM:
        raise ModelError("models that mlx-vlm's own code encodes take no videos here")
    if family is None or isinstance(family, StillsFamily):
        raise ModelError(f"models of family `{recipe.family}` take no videos here")
    settings = family.resolve(checkpoint, profile, wanted)
    made = replace(recipe, family_revision=family.revision, settings={"clip": settings})
    return ClipParts(made, family.preprocessor(settings, profile))


def _family(name: str) -> ClipFamily | StillsFamily | None:
    if name not in registry.names("clips"):
        return None
    family: ClipFamily | StillsFamily = registry.load("clips", name)
    return family


def _takes_stills(target: WarmTarget) -> bool:
    return isinstance(target, StillsTarget) and target.takes_stills


def make_clip_work(
    parts: ClipParts | StillsParts | Failure, profile: Profile, options: WarmOptions
) -> ClipWork | FrameWork | Failure:
    """The work on videos, or why they are skipped."""
    if isinstance(parts, Failure):
        return parts
    reader = make_reader(profile, options)
    if isinstance(parts, StillsParts):
        return FrameWork(parts.recipe, parts.planner, reader)
    return ClipWork(parts.recipe, parts.preprocessor, reader)


def make_reader(profile: Profile, options: WarmOptions) -> ClipReader:
    """Opens and decodes clips by the rules of `profile`, within the limits of `options`."""
    decoder = partial(_decoder, profile, int(options.max_pixels * _SHARE_OF_PIXELS))
    return ClipReader(decoder, _MAX_FILE_BYTES, options.max_file_bytes)


def frames_asked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Options that ask for the frames of resolved `settings`, whoever asked for them then.

    Raises:
        KeyError: they are of no clip.
    """
    sampling = settings["sampling"]
    rate, count = sampling.get("fps"), sampling.get("num_frames")
    asked = {"num_frames": count} if rate is None else {"fps": rate}
    most = sampling.get("stills", sampling.get("max_frames"))
    return {name: value for name, value in {**asked, "max_frames": most}.items() if value}


def _decoder(profile: Profile, max_pixels: int) -> ClipDecoder:
    from vcache_cli.media.video import VideoDecoder  # loads PyAV

    return VideoDecoder(profile, max_pixels=max_pixels)
