"""Pixtral: pictures in their own shape, whole patches of the tower."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import ModelError
from vcache_cli.preprocess.lookup import SCALE_F32, SCALE_F64
from vcache_cli.preprocess.processors import checked
from vcache_cli.preprocess.settings import (
    check_type,
    image_settings,
    pixel_side,
    processor_json,
    resample_filter,
)
from vcache_cli.preprocess.varied_size import VariedSizePreprocessor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.profile import Profile

__all__ = ["FAMILY", "PixtralFamily"]

DEFAULTS: Final[Mapping[str, Any]] = {
    "do_center_crop": None,
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "crop_size": None,
    "default_to_square": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "resample": 3,
    "rescale_factor": 1 / 255,
    "size": {"longest_edge": 1024},
}
"""Those of both servers' image processors."""
EMPTY_MEANS_DEFAULT: Final = ("image_mean", "image_std", "size")
"""Where mlx-vlm takes its default for anything that is empty."""
SIZE_KEYS: Final = ({"longest_edge"}, {"longest_edge", "shortest_edge"}, {"height", "width"})
PATCH_SIDE: Final = 16
"""Where the processor's settings do not say, pixels; and one patch a token."""


@dataclass(frozen=True, slots=True)
class PixtralFamily:
    """Preprocessing of models around Pixtral's tower."""

    name: str
    """The `model_type`."""
    revision: int
    """Bumped by any change of ours that changes pixels."""
    patch_from_config: bool = False
    """mlx-vlm takes the side of what becomes one token from ``config.json`` first."""

    def resolve(self, checkpoint: Checkpoint, profile: Profile) -> dict[str, Any]:
        """Settings as the server resolves them: JSON values, every default filled in.

        Both servers' processors pass `patch_size` on, whatever the image processor's own says.

        Raises:
            ModelError: no settings, or some that cannot be followed.
        """
        mlx_vlm = profile.processors == "mlx-vlm"
        found = _mlx_vlm(checkpoint) if mlx_vlm else self._transformers(checkpoint)
        settings = image_settings({**found, "do_resize": False}, DEFAULTS)
        if found["do_resize"]:
            settings["do_resize"] = True
            settings["max_size"] = _max_size(found["size"])
            settings["resample"] = resample_filter(found["resample"])
        settings["arithmetic"] = SCALE_F32 if mlx_vlm else SCALE_F64
        settings["patch_size"] = self._token_side(checkpoint, profile)
        return settings

    def preprocessor(self, settings: Mapping[str, Any], profile: Profile) -> VariedSizePreprocessor:
        """The preprocessor of resolved settings.

        Raises:
            ModelError: the profile's processors are not known here, or give no finite pixels.
        """
        return checked(VariedSizePreprocessor(dict(settings)), profile)

    def _transformers(self, checkpoint: Checkpoint) -> dict[str, Any]:
        """As the class of transformers: a missing setting means its default, a null one none."""
        found = processor_json(checkpoint)
        own = checkpoint.config.get("model_type") == self.name
        check_type(found, ("PixtralImageProcessor",), default=own)
        if not found.get("do_pad", True) or found.get("do_center_crop"):
            raise ModelError("`do_pad` off, or `do_center_crop` on: cannot be followed")
        if not found.get("default_to_square", True) and isinstance(found.get("size"), int):
            raise ModelError("`size`: the server refuses an integer without `default_to_square`")
        return _known(found)

    def _token_side(self, checkpoint: Checkpoint, profile: Profile) -> int:
        """Side of what becomes one token, pixels."""
        patch: Any = checkpoint.processor.get("patch_size", PATCH_SIDE)
        merge: Any = checkpoint.processor.get("spatial_merge_size", 1)
        if self.patch_from_config and profile.processors == "mlx-vlm":
            patch, merge = _from_config(checkpoint)
        side = pixel_side("patch_size", patch) * pixel_side("spatial_merge_size", merge)
        return pixel_side("patch_size * spatial_merge_size", side)


def _known(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: found.get(name, default) for name, default in DEFAULTS.items()}


def _from_config(checkpoint: Checkpoint) -> tuple[Any, Any]:
    """Patch side and patches a side of a token, the first that any file says."""
    config, processor = checkpoint.config, checkpoint.processor
    own: Any = None
    if checkpoint.preprocessor is not processor.get("image_processor"):  # a file of its own
        own = checkpoint.preprocessor.get("patch_size")
    if isinstance(own, dict):
        own = own.get("height") or own.get("width")
    vision = config.get("vision_config")
    vision = vision if isinstance(vision, dict) else {}
    patches = (vision.get("patch_size"), own, processor.get("patch_size"), PATCH_SIDE)
    merges = (config.get("spatial_merge_size"), processor.get("spatial_merge_size"), 1)
    return _first(patches), _first(merges)


def _first(values: Iterable[Any]) -> Any:  # noqa: ANN401  as in the JSON
    return next(value for value in values if value is not None)


def _mlx_vlm(checkpoint: Checkpoint) -> dict[str, Any]:
    """As mlx-vlm's own class: of any name, with all of its defaults where there is no file."""
    nested = checkpoint.processor.get("image_processor")
    if nested and not isinstance(nested, dict):
        raise ModelError(f"`image_processor`: expected an object, found {nested!r:.40}")
    found = dict(nested or checkpoint.preprocessor)
    if "size" not in found and "size" in checkpoint.processor:
        found["size"] = checkpoint.processor["size"]
    if any(isinstance(found.get(name), int | float) for name in ("image_mean", "image_std")):
        raise ModelError("`image_mean`, `image_std`: the server refuses one number for all")
    empty = [name for name in EMPTY_MEANS_DEFAULT if not found.get(name, True)]
    empty += [name for name in ("resample",) if found.get(name) is None]
    settings = _known({name: value for name, value in found.items() if name not in empty})
    # It crops nothing, and its pictures are RGB before a transparent colour could be looked for.
    return settings | {"do_center_crop": False, "do_convert_rgb": False}


def _max_size(value: Any) -> dict[str, int]:  # noqa: ANN401  as in the JSON
    if isinstance(value, int):
        value = [value, value]
    if isinstance(value, list) and len(value) == 2:
        value = {"height": value[0], "width": value[1]}
    if not isinstance(value, dict) or set(value) not in SIZE_KEYS:
        raise ModelError(f"`size`: expected longest_edge, or height and width; found {value!r:.80}")
    longest = value.get("longest_edge")
    sides = {"height": longest, "width": longest} if "longest_edge" in value else value
    return {name: pixel_side(f"size.{name}", sides[name]) for name in ("height", "width")}


FAMILY: Final = PixtralFamily(name="pixtral", revision=1)
"""Known to transformers as a `llava` around this tower."""
