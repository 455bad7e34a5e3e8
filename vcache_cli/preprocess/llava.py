"""LLaVA 1.5: CLIP's treatment or SigLIP's, or its own, which can pad to a square first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vcache_cli.errors import ModelError
from vcache_cli.preprocess import clip, siglip
from vcache_cli.preprocess.fixed_size import FixedSizePreprocessor
from vcache_cli.preprocess.levels import check_resize
from vcache_cli.preprocess.processors import checked
from vcache_cli.preprocess.settings import (
    channels,
    check_type,
    image_settings,
    patch_side,
    processor_json,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from numpy.typing import NDArray

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.profile import Profile

__all__ = ["FAMILY", "LlavaFamily", "LlavaPreprocessor"]

OWN: Final = "LlavaImageProcessor"
DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    OWN: clip.FAMILY.defaults,
    **dict.fromkeys(clip.FAMILY.processor_types, clip.FAMILY.defaults),
    **dict.fromkeys(siglip.FAMILY.processor_types, siglip.FAMILY.defaults),
}
"""By the image processor that the checkpoint names; LLaVA's own where it names none."""
CLASS_TOKENS: Final = {"clip_vision_model": 1, "siglip_vision_model": 0}
"""By vision tower."""
PATCH_SIDES: Final = {"clip_vision_model": 32, "siglip_vision_model": 16}
"""Where a checkpoint has a vision part that does not say, pixels."""


@dataclass(frozen=True)  # no slots: as its base
class LlavaPreprocessor(FixedSizePreprocessor):
    """One treatment for every picture, a square around it first where the settings say so."""

    def _resized(self, rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
        colour = self.settings["pad_colour"]
        return super()._resized(rgb if colour is None else _square(rgb, colour))

    def _final_size(self, width: int, height: int) -> tuple[int, int]:
        if self.settings["pad_colour"] is not None:
            height, width = _square_size(height, width)
        return super()._final_size(width, height)


def _square(levels: NDArray[np.uint8], colour: list[int]) -> NDArray[np.uint8]:
    """`levels` in the middle of a square of one colour; an odd remainder lies after it."""
    height, width = levels.shape[:2]
    if height == width:
        return levels
    side, _ = _square_size(height, width)
    square = np.empty((side, side, 3), np.uint8)
    square[:] = colour
    top, left = (side - height) // 2, (side - width) // 2
    square[top : top + height, left : left + width] = levels
    return square


def _square_size(height: int, width: int) -> tuple[int, int]:
    """Sides of the square around a picture.

    Raises:
        EncodeError: kind ``too_long``: a picture so thin that its square would fill memory.
    """
    side = max(height, width)
    check_resize((height, width), (side, side))
    return side, side


@dataclass(frozen=True, slots=True)
class LlavaFamily:
    """Preprocessing of `llava` with a tower of CLIP's or SigLIP's kind."""

    name: str
    """The `model_type`."""
    revision: int
    """Bumped by any change of ours that changes pixels."""

    def resolve(self, checkpoint: Checkpoint, profile: Profile) -> dict[str, Any]:
        """Settings as the server resolves them: JSON values, every default filled in.

        Raises:
            ModelError: no settings, or some that cannot be followed.
        """
        found = processor_json(checkpoint)
        own = checkpoint.config.get("model_type") == self.name
        kind = check_type(found, tuple(DEFAULTS), default=own) or OWN
        rest = found
        if kind == OWN:  # only this one takes it for a square
            rest = {name: value for name, value in found.items() if name != "do_pad"}
        settings = image_settings(rest, DEFAULTS[kind])
        settings["pad_colour"] = _pad_colour(found) if kind == OWN else None
        return settings | _tower_settings(checkpoint.config, profile)

    def preprocessor(self, settings: Mapping[str, Any], profile: Profile) -> LlavaPreprocessor:
        """The preprocessor of resolved settings.

        Raises:
            ModelError: the profile's processors are not known here, or give no finite pixels.
        """
        return checked(LlavaPreprocessor(dict(settings)), profile)


def _pad_colour(found: Mapping[str, Any]) -> list[int] | None:
    """The mean as levels, cut off; None where nothing is padded."""
    if not found.get("do_pad"):
        return None
    mean = found.get("image_mean", clip.FAMILY.defaults["image_mean"])
    if not mean and not isinstance(mean, int | float):
        return [0, 0, 0]
    if not isinstance(mean, list):
        raise ModelError(f"`image_mean`: `do_pad` expects three numbers, found {mean!r:.40}")
    colour = [int(share * 255) for share in channels("image_mean", mean)]
    if not all(0 <= level <= 255 for level in colour):
        raise ModelError(f"`image_mean`: `do_pad` expects shares of 255, found {mean!r:.40}")
    return colour


def _tower_settings(config: Mapping[str, Any], profile: Profile) -> dict[str, int]:
    """What decides the number of features: patches, and what is added or cut off."""
    found = config.get("vision_config")
    vision: dict[str, Any] = found if isinstance(found, dict) else {}
    tower = vision.get("model_type") or "clip_vision_model"
    if not isinstance(tower, str) or tower not in CLASS_TOKENS:
        known = " or ".join(f"`{name}`" for name in CLASS_TOKENS)
        raise ModelError(f"`llava` with a vision part of `{tower!s:.60}`: expected {known}")
    strategy = config.get("vision_feature_select_strategy", "default")
    if strategy not in ("default", "full"):  # a list is no member of a set
        raise ModelError(
            "`vision_feature_select_strategy`: expected `default` or `full`, "
            f"found {strategy!r:.40}"
        )
    # transformers takes the default of the whole model only where there is no vision part
    whole = profile.processors == "mlx-vlm" or not isinstance(found, dict)
    side = patch_side({"vision_config": vision}, default=14 if whole else PATCH_SIDES[tower])
    return {"patch_size": side, "extra_tokens": CLASS_TOKENS[tower] - (strategy == "default")}


FAMILY: Final = LlavaFamily(name="llava", revision=1)
"""`default` cuts the first row off: CLIP's class token, but a patch of SigLIP's."""
