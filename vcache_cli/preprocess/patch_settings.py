"""Settings of families with a grid of patches, as each server resolves them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.errors import ModelError
from vcache_cli.preprocess.lookup import SCALE_F32, SCALE_F64
from vcache_cli.preprocess.settings import (
    channels,
    check_type,
    count,
    number,
    pixel_side,
    processor_json,
    resample_filter,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

    from vcache_cli.checkpoint import Checkpoint

__all__ = ["mlx_vlm_settings", "transformers_settings"]

_MIN_PIXELS: Final = 56 * 56
_MAX_PIXELS: Final = 28 * 28 * 1280
_MOST_PIXELS: Final = 2**53
"""Beyond it the arithmetic of sizes would no longer be exact."""
_MOST_FRAMES: Final = 64
"""Of one patch; a picture is repeated as often."""
_BICUBIC: Final = 3

_TRANSFORMERS: Final[Mapping[str, Any]] = {
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "merge_size": 2,
    "patch_size": 14,
    "resample": _BICUBIC,
    "rescale_factor": 1 / 255,
    "temporal_patch_size": 2,
}
_MLX_VLM: Final[Mapping[str, Any]] = {
    "do_normalize": True,
    "do_rescale": True,
    "image_mean": None,
    "image_std": None,
    "merge_size": 2,
    "rescale_factor": 1 / 255,
    "temporal_patch_size": 2,
}
_HALVES: Final = [0.5, 0.5, 0.5]


def transformers_settings(checkpoint: Checkpoint, model_types: Sequence[str]) -> dict[str, Any]:
    """As the class of transformers: a missing setting means its default, a null one none.

    Args:
        checkpoint: of the model.
        model_types: those for which the server takes this class where none is named.

    Raises:
        ModelError: no settings, or some that cannot be followed.
    """
    found = processor_json(checkpoint)
    own = checkpoint.config.get("model_type") in model_types
    check_type(found, ("Qwen2VLImageProcessor",), default=own)
    every = {name: found.get(name, default) for name, default in _TRANSFORMERS.items()}
    settings = _common(every) | {
        "arithmetic": SCALE_F64,
        "do_convert_rgb": bool(every["do_convert_rgb"]),
        "do_resize": bool(every["do_resize"]),
    }
    if settings["do_resize"]:
        settings |= _transformers_limits(found)
        settings["resample"] = resample_filter(every["resample"])
    return settings


def mlx_vlm_settings(checkpoint: Checkpoint, *, patch_size: int) -> dict[str, Any]:
    """As the processors of mlx-vlm: neither names nor steps of resizing are looked at.

    Args:
        checkpoint: of the model.
        patch_size: where the checkpoint does not say, pixels.

    Raises:
        ModelError: some settings cannot be followed.
    """
    nested = checkpoint.processor.get("image_processor") or {}
    if not isinstance(nested, dict):
        raise ModelError(f"`image_processor`: expected an object, found {nested!r:.40}")
    found = {**checkpoint.preprocessor, **nested}
    defaults = {**_MLX_VLM, "patch_size": patch_size}
    every = {name: found.get(name, default) for name, default in defaults.items()}
    for name in ("image_mean", "image_std"):
        every[name] = every[name] or _HALVES
        if not isinstance(every[name], list):
            raise ModelError(f"`{name}`: expected three numbers, found {every[name]!r:.40}")
    return _common(every) | {
        "arithmetic": SCALE_F32,
        "do_convert_rgb": False,  # the loader has done it, and no colour is made white here
        "do_resize": True,
        "resample": _BICUBIC,
        **_mlx_vlm_limits(found),
    }


def _common(every: Mapping[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {
        name: pixel_side(name, every[name]) for name in ("merge_size", "patch_size")
    }
    repeated = every["temporal_patch_size"]
    settings["temporal_patch_size"] = count("temporal_patch_size", repeated, most=_MOST_FRAMES)
    settings |= {step: bool(every[step]) for step in ("do_rescale", "do_normalize")}
    if settings["do_rescale"]:
        settings["rescale_factor"] = number("rescale_factor", every["rescale_factor"])
    if settings["do_normalize"]:
        settings["image_mean"] = channels("image_mean", every["image_mean"])
        settings["image_std"] = channels("image_std", every["image_std"])
    return settings


def _transformers_limits(found: Mapping[str, Any]) -> dict[str, int]:
    """Both limits: the old names win over those within `size`, which is whole or missing."""
    size = found.get("size")
    if size is None:
        size = {"shortest_edge": _MIN_PIXELS, "longest_edge": _MAX_PIXELS}
    if not isinstance(size, dict):
        raise ModelError(f"`size`: expected shortest_edge and longest_edge, found {size!r:.40}")
    size = dict(size)
    for old, new in (("min_pixels", "shortest_edge"), ("max_pixels", "longest_edge")):
        if found.get(old) is not None:
            size[new] = found[old]
            size.pop(old, None)
    if set(size) != {"shortest_edge", "longest_edge"}:
        raise ModelError(f"`size`: expected shortest_edge and longest_edge, found {size!r:.80}")
    return {
        "min_pixels": _pixels("shortest_edge", size["shortest_edge"]),
        "max_pixels": _pixels("longest_edge", size["longest_edge"]),
    }


def _mlx_vlm_limits(found: Mapping[str, Any]) -> dict[str, int]:
    """Each limit by itself: the old name wins, then `size`, then the default; null is missing."""
    size = found.get("size") or {}
    if not isinstance(size, dict):
        raise ModelError(f"`size`: expected an object, found {size!r:.40}")
    limits = {"min_pixels": _MIN_PIXELS, "max_pixels": _MAX_PIXELS}
    for name, edge in (("min_pixels", "shortest_edge"), ("max_pixels", "longest_edge")):
        for value in (size.get(edge), found.get(name)):
            if value is not None:
                limits[name] = _pixels(name, value)
    return limits


def _pixels(name: str, value: Any) -> int:  # noqa: ANN401  as in the JSON
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _MOST_PIXELS:
        raise ModelError(f"`{name}`: expected a number of pixels, found {value!r:.40}")
    return value
