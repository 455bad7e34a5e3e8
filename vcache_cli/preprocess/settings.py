"""``preprocessor_config.json`` to resolved settings, as transformers 5 resolves it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import ModelError
from vcache_cli.preprocess.geometry import MAX_RESIZED_PIXELS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

    from vcache_cli.checkpoint import Checkpoint

__all__ = [
    "channels",
    "check_type",
    "count",
    "image_settings",
    "number",
    "patch_side",
    "pixel_side",
    "processor_json",
    "resample_filter",
]

_SIZE_KEYS: Final = (
    *({"height", "width"}, {"shortest_edge"}, {"shortest_edge", "longest_edge"}),
    {"max_height", "max_width"},
)
_MAX_NUMBER: Final = sys.float_info.max
"""JSON has integers that no float can hold."""
_FILTERS: Final = frozenset(range(6))
"""Pillow's codes: nearest, lanczos, bilinear, bicubic, box, hamming."""


def processor_json(checkpoint: Checkpoint) -> Mapping[str, Any]:
    """The image processor's own settings; a part of ``processor_config.json`` goes first.

    Raises:
        ModelError: there are none.
    """
    nested = checkpoint.processor.get("image_processor")
    found = nested if isinstance(nested, dict) else checkpoint.preprocessor
    if not found:
        raise ModelError(
            f"{checkpoint.folder}: expected preprocessor_config.json, or an `image_processor` in "
            "processor_config.json, found neither",
            hint="copy the file from where the model comes from",
        )
    return found


def check_type(found: Mapping[str, Any], expected: Sequence[str], *, default: bool) -> str | None:
    """Which of the processors `expected` the settings are for; None where they name none.

    Args:
        default: whether the server itself would choose one of them where none is named.

    Raises:
        ModelError: they are for another.
    """
    name = found.get("image_processor_type") or found.get("feature_extractor_type")
    if name is None and default:
        return None
    plain = str(name).removesuffix("Fast").removesuffix("Pil")
    if plain not in expected:
        raise ModelError(
            f"image processor `{name!s:.60}`: expected {' or '.join(f'`{e}`' for e in expected)}",
            hint="see `image_processor_type` in the model's preprocessor_config.json",
        )
    if found.get("auto_map"):
        raise ModelError("image processor with code of its own (`auto_map`) cannot be followed")
    return plain


def image_settings(found: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting that decides a pixel, as JSON values.

    A missing setting means the default; null means none, so a step of null is off.
    Settings of a step that is switched off are left out: they decide nothing.

    Raises:
        ModelError: a setting that cannot be followed.
    """
    every = {**defaults, **{name: found[name] for name in defaults if name in found}}
    if found.get("do_pad") or found.get("use_square_size"):
        raise ModelError("image processor settings `do_pad`, `use_square_size`: cannot be followed")
    settings: dict[str, Any] = {
        step: bool(every[step])
        for step in ("do_convert_rgb", "do_resize", "do_center_crop", "do_rescale", "do_normalize")
    }
    if not settings["do_rescale"] and not settings["do_normalize"]:
        raise ModelError("`do_rescale` and `do_normalize` both off: pixels would be no float32")
    if settings["do_resize"]:
        settings["size"] = _size("size", every["size"], square=bool(every["default_to_square"]))
        settings["resample"] = resample_filter(every["resample"])
    if settings["do_center_crop"]:
        settings["crop_size"] = _crop_size(every["crop_size"])
    if settings["do_rescale"]:
        settings["rescale_factor"] = number("rescale_factor", every["rescale_factor"])
    if settings["do_normalize"]:
        settings["image_mean"] = channels("image_mean", every["image_mean"])
        settings["image_std"] = channels("image_std", every["image_std"])
    return settings


def patch_side(config: Mapping[str, Any], *, default: int) -> int:
    """Side of a patch, pixels: of the vision part, of a lone tower's configuration, or `default`.

    Raises:
        ModelError: it is no positive integer.
    """
    vision = config.get("vision_config")
    holder = vision if isinstance(vision, dict) else config
    side = holder.get("patch_size")
    if isinstance(side, list) and len(side) == 2 and side[0] == side[1]:
        side = side[0]
    return default if side is None else pixel_side("patch_size", side)


def _size(name: str, value: Any, *, square: bool) -> dict[str, int]:  # noqa: ANN401  as in the JSON
    if isinstance(value, int) and not isinstance(value, bool):
        keys = ("height", "width") if square else ("shortest_edge",)
        value = dict.fromkeys(keys, value)
    elif isinstance(value, list) and len(value) == 2:
        value = {"height": value[0], "width": value[1]}
    if not isinstance(value, dict) or set(value) not in _SIZE_KEYS:
        known = "; ".join("+".join(sorted(keys)) for keys in _SIZE_KEYS)
        raise ModelError(f"`{name}`: expected an integer or one of {known}; found {value!r:.80}")
    sides = {key: pixel_side(f"{name}.{key}", value[key]) for key in sorted(value)}
    if sides.get("height", 1) * sides.get("width", 1) > MAX_RESIZED_PIXELS:
        raise ModelError(
            f"`{name}`: expected at most {MAX_RESIZED_PIXELS} pixels, found "
            f"{sides['width']} x {sides['height']}"
        )
    return sides


def _crop_size(value: Any) -> dict[str, int]:  # noqa: ANN401  as in the JSON
    size = _size("crop_size", value, square=True)
    if set(size) != {"height", "width"}:
        raise ModelError(f"`crop_size`: expected height and width, found {value!r:.80}")
    return size


def pixel_side(name: str, value: Any) -> int:  # noqa: ANN401  as in the JSON
    """`value`, where it is a length in pixels.

    Args:
        name: of the setting.

    Raises:
        ModelError: it is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= 65536:
        raise ModelError(f"`{name}`: expected 1 to 65536 pixels, found {value!r:.40}")
    return value


def count(name: str, value: Any, *, most: int) -> int:  # noqa: ANN401  as in the JSON
    """`value`, where it is a number of things: from 1 to `most`, so that memory is not filled.

    Raises:
        ModelError: it is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise ModelError(f"`{name}`: expected 1 to {most}, found {value!r:.40}")
    return value


def resample_filter(value: Any) -> int:  # noqa: ANN401  as in the JSON
    """`value`, where it is one of Pillow's filters.

    Raises:
        ModelError: it is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value not in _FILTERS:
        raise ModelError(
            f"`resample`: expected one of Pillow's filters 0 to 5, found {value!r:.40}"
        )
    return value


def number(name: str, value: Any) -> float:  # noqa: ANN401  as in the JSON
    """`value` as a finite float.

    Raises:
        ModelError: it is none.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not -_MAX_NUMBER <= value <= _MAX_NUMBER:  # NaN is not
        raise ModelError(f"`{name}`: expected a number, found {value!r:.40}")
    return float(value)


def channels(name: str, value: Any) -> list[float]:  # noqa: ANN401  as in the JSON
    """`value` for each of three channels; one number stands for all.

    Raises:
        ModelError: it is neither one number nor three.
    """
    values = [value] * 3 if isinstance(value, int | float) else value
    if not isinstance(values, list) or len(values) != 3:
        raise ModelError(f"`{name}`: expected a number or three, found {value!r:.40}")
    return [number(name, part) for part in values]
