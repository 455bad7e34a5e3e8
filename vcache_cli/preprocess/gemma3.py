"""Gemma 3: the whole picture to one fixed size, and, where asked for, crops of a long one."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from vcache_cli.errors import ModelError
from vcache_cli.items import Frames, Pixels
from vcache_cli.levels import LevelTable
from vcache_cli.preprocess.fixed_size import FixedSizePreprocessor
from vcache_cli.preprocess.levels import first_frame
from vcache_cli.preprocess.lookup import apply_table
from vcache_cli.preprocess.pan_and_scan import crop_boxes
from vcache_cli.preprocess.processors import checked
from vcache_cli.preprocess.settings import (
    check_type,
    count,
    image_settings,
    number,
    patch_side,
    pixel_side,
    processor_json,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

    from numpy.typing import NDArray

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.profile import Profile

__all__ = ["FAMILY", "Gemma3Family", "Gemma3Preprocessor"]

DEFAULTS: Final[Mapping[str, Any]] = {
    "do_center_crop": None,
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "crop_size": None,
    "default_to_square": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "resample": 2,
    "rescale_factor": 1 / 255,
    "size": {"height": 224, "width": 224},
}
MAX_CROPS: Final = 1024
"""More than any model takes; so that a setting cannot fill memory."""


@dataclass(frozen=True)  # no slots: as its base
class Gemma3Preprocessor(FixedSizePreprocessor):
    """The whole picture, and its crops after it where `pan_and_scan` is on."""

    def __call__(self, frames: Frames) -> Pixels:
        """`pixel_values` float32: (3, H, W), or (T, 3, H, W) where `pan_and_scan` is on.

        Raises:
            EncodeError: kind ``too_long``: see `crop_boxes`.
        """
        if not self.settings["pan_and_scan"]:
            return super().__call__(frames)
        crops = [apply_table(self._table, crop) for crop in self._crops(frames)]
        return Pixels({"pixel_values": np.stack(crops)}, self._all_tokens(len(crops)))

    def compact(self, frames: Frames) -> Pixels:
        """The same as uint8 levels with their table.

        Raises:
            EncodeError: see `__call__`.
        """
        if not self.settings["pan_and_scan"]:
            return super().compact(frames)
        crops = np.stack([crop.transpose(2, 0, 1) for crop in self._crops(frames)])
        tables = {"pixel_values": LevelTable(self._table, channel_axis=1)}
        return Pixels({"pixel_values": crops}, self._all_tokens(len(crops)), tables)

    def processed(self, request: Sequence[Pixels]) -> dict[str, NDArray[Any]]:
        """`pixel_values` (N, 3, H, W): each picture and its crops, one after the other."""
        if not self.settings["pan_and_scan"]:
            return super().processed(request)
        return {"pixel_values": np.concatenate([each.tensors["pixel_values"] for each in request])}

    def num_tokens(self, width: int, height: int) -> int:
        """Rows of the projector's output for a picture of that size, pixels.

        The words that a server puts between the crops are text, and not counted.

        Raises:
            EncodeError: see `__call__`.
        """
        return self._all_tokens(self._num_tiles(width, height))

    def pixel_bytes(self, width: int, height: int, *, compact: bool = False) -> int:
        """Bytes of `pixel_values`, or of its levels with their table.

        Raises:
            EncodeError: see `__call__`.
        """
        size: dict[str, int] = self.settings["size"]
        levels: int = 3 * size["height"] * size["width"] * self._num_tiles(width, height)
        return levels + 3 * 256 * 4 if compact else levels * 4

    def _crops(self, frames: Frames) -> list[NDArray[np.uint8]]:
        """(H, W, 3) of the whole picture, then of each crop."""
        rgb = first_frame(frames, convert=self.settings["do_convert_rgb"])
        boxes = crop_boxes(*rgb.shape[:2], **self.settings["pan_and_scan"])
        crops = [rgb[top:bottom, left:right] for top, bottom, left, right in boxes]
        return [self._resized(part) for part in (rgb, *crops)]

    def _num_tiles(self, width: int, height: int) -> int:
        scan = self.settings["pan_and_scan"]
        return 1 + (len(crop_boxes(height, width, **scan)) if scan else 0)

    def _all_tokens(self, num_tiles: int) -> int:
        return int(self.settings["tokens_per_crop"]) * num_tiles

    def _tokens(self, height: int, width: int) -> int:
        return self._all_tokens(1)


@dataclass(frozen=True, slots=True)
class Gemma3Family:
    """Preprocessing of `gemma3`."""

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
        check_type(found, ("Gemma3ImageProcessor",), default=own)
        known = {name: found[name] for name in DEFAULTS if name in found}
        # The processor of transformers passes its own on, whatever the checkpoint says.
        if theirs := profile.processors == "transformers":
            known["do_convert_rgb"] = True
        settings = image_settings(known | {"do_center_crop": None}, DEFAULTS)
        if set(settings.get("size", ())) != {"height", "width"}:
            raise ModelError("`do_resize`, `size`: expected a resize to one height and width")
        settings["pan_and_scan"] = None if theirs else _pan_and_scan(found)
        settings["tokens_per_crop"] = _tokens_per_crop(checkpoint.config, profile)
        return settings

    def preprocessor(self, settings: Mapping[str, Any], profile: Profile) -> Gemma3Preprocessor:
        """The preprocessor of resolved settings.

        Raises:
            ModelError: the profile's processors are not known here, or give no finite pixels.
        """
        return checked(Gemma3Preprocessor(dict(settings)), profile)


def _pan_and_scan(found: Mapping[str, Any]) -> dict[str, Any] | None:
    if not found.get("do_pan_and_scan"):
        return None
    crops, ratio = "pan_and_scan_max_num_crops", "pan_and_scan_min_ratio_to_activate"
    side = found.get("pan_and_scan_min_crop_size")
    return {
        "min_crop_size": pixel_side("pan_and_scan_min_crop_size", side),
        "max_num_crops": count(crops, found.get(crops), most=MAX_CROPS),
        "min_ratio": number(ratio, found.get(ratio)),
    }


def _tokens_per_crop(config: Mapping[str, Any], profile: Profile) -> int:
    """Rows that the projector pools a square of patches to."""
    holder = config.get("text_config") if profile.processors == "mlx-vlm" else config
    wanted = (holder if isinstance(holder, dict) else {}).get("mm_tokens_per_image", 256)
    vision = config.get("vision_config")
    vision = vision if isinstance(vision, dict) else {}
    side = pixel_side("image_size", vision.get("image_size", 224))
    patches = side // patch_side({"vision_config": vision}, default=16)
    pooled = isqrt(pixel_side("mm_tokens_per_image", wanted))
    if pooled > patches:
        raise ModelError(f"`mm_tokens_per_image`: {wanted} are more than {patches**2} patches")
    return int((patches // (patches // pooled)) ** 2)


FAMILY: Final = Gemma3Family(name="gemma3", revision=1)
"""Defaults are those of the server's image processor and configuration."""
