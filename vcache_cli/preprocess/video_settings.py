"""Settings of a checkpoint's video processor, as each server finds and reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.checkpoint.jsonfile import read_object
from vcache_cli.errors import ModelError
from vcache_cli.preprocess.lookup import FUSED_F32, SCALE_F32
from vcache_cli.preprocess.settings import channels, number, resample_filter
from vcache_cli.preprocess.torch_resize import TORCH_FILTERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

    from vcache_cli.checkpoint import Checkpoint

__all__ = [
    "TORCH",
    "check_video_type",
    "pillow_colours",
    "sampling_settings",
    "torch_colours",
    "torch_filter",
    "video_json",
]

TORCH: Final = "torch"
"""Who resizes: torch, as torchvision asks it to; anything else is Pillow."""

_FILE: Final = "video_preprocessor_config.json"
_SAMPLING: Final[Mapping[str, Any]] = {
    "fps": None,
    "num_frames": None,
    "min_frames": 4,
    "max_frames": 768,
}


def video_json(checkpoint: Checkpoint, *, nested: bool) -> Mapping[str, Any]:
    """The video processor's settings; those of the image processor where it has none of its own.

    Args:
        nested: a part of ``processor_config.json`` goes before every other file, as in
            transformers; mlx-vlm does not look there.

    Raises:
        ModelError: JSON that is malformed.
    """
    part = checkpoint.processor.get("video_processor")
    if nested and isinstance(part, dict):
        return part
    found = read_object(checkpoint.folder / _FILE)
    if found is None:
        found = read_object(checkpoint.folder / "preprocessor_config.json")
    return found or {}


def check_video_type(found: Mapping[str, Any], expected: str) -> None:
    """See that the settings are for the video processor `expected`, or name none.

    Raises:
        ModelError: they are for another.
    """
    name = found.get("video_processor_type")
    if name is not None and name != expected:
        raise ModelError(f"video processor `{name}`: expected `{expected}`")
    if found.get("auto_map") and name is None:
        raise ModelError("video processor with code of its own (`auto_map`) cannot be followed")


def torch_colours(found: Mapping[str, Any], mean: Sequence[float], std: Sequence[float]) -> Any:  # noqa: ANN401  JSON
    """Settings of the colours in transformers' video processors, which run on torch.

    Raises:
        ModelError: a setting that cannot be followed.
    """
    settings: dict[str, Any] = {
        name: bool(found.get(name, True)) for name in ("do_rescale", "do_normalize")
    }
    if not any(settings.values()):
        raise ModelError("`do_rescale` and `do_normalize` both off: pixels would be no float32")
    if settings["do_rescale"]:
        factor = number("rescale_factor", found.get("rescale_factor", 1 / 255))
        if not factor:
            raise ModelError("`rescale_factor`: expected a number other than 0")
        settings["rescale_factor"] = factor
    if settings["do_normalize"]:
        settings["image_mean"] = channels("image_mean", found.get("image_mean", list(mean)))
        settings["image_std"] = channels("image_std", found.get("image_std", list(std)))
    return settings | {"arithmetic": FUSED_F32 if settings["do_normalize"] else SCALE_F32}


def pillow_colours(found: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the colours in mlx-vlm's video processor.

    Raises:
        ModelError: a setting that cannot be followed.
    """
    settings: dict[str, Any] = {
        name: bool(found.get(name, True)) for name in ("do_rescale", "do_normalize")
    }
    if settings["do_rescale"]:
        factor = found.get("rescale_factor", 1 / 255)
        settings["rescale_factor"] = number("rescale_factor", factor)
    if settings["do_normalize"]:
        for name in ("image_mean", "image_std"):
            value = found.get(name) or [0.5, 0.5, 0.5]
            if not isinstance(value, list):
                raise ModelError(f"`{name}`: expected three numbers, found {value!r:.40}")
            settings[name] = channels(name, value)
    return settings | {"arithmetic": SCALE_F32}


def torch_filter(value: Any) -> int:  # noqa: ANN401  as in the JSON
    """`value`, where it is a filter of Pillow's that torch has too.

    Raises:
        ModelError: it is not.
    """
    resample = resample_filter(value)
    if resample not in TORCH_FILTERS:
        raise ModelError(f"`resample`: expected 1, 2 or 3 for videos, found {value!r}")
    return resample


def sampling_settings(
    found: Mapping[str, Any], wanted: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """What a sampler needs: a caller's wish, then the checkpoint's, then the default.

    Args:
        found: the checkpoint's settings.
        wanted: `fps`, `num_frames`, `max_frames` as a caller asks for them; missing or None where
            not. A rate sets the count aside, and a count the rate.
        defaults: `rule`, and what is not that of transformers.

    Raises:
        ModelError: a setting that is no number.
    """
    every = {**_SAMPLING, **defaults}
    settings = {name: found.get(name, value) for name, value in every.items()}
    settings["rule"] = defaults["rule"]
    asked = {name: value for name, value in wanted.items() if value is not None}
    if "fps" in asked:
        settings["num_frames"] = None
    elif "num_frames" in asked:
        settings["fps"] = None
    settings |= asked
    if settings["fps"] is not None and number("fps", settings["fps"]) <= 0:
        raise ModelError(f"`fps`: expected more than 0, found {settings['fps']!r}")
    for name in ("num_frames", "min_frames", "max_frames"):
        value = settings[name]
        whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
        if not whole and (value is not None or name != "num_frames"):
            raise ModelError(f"`{name}`: expected a number of frames, found {value!r:.40}")
    return settings
