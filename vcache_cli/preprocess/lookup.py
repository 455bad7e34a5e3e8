"""uint8 to float32 by table: 256 entries per channel, computed in the server's own order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vcache_cli.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

    from numpy.typing import NDArray

__all__ = ["DIVIDE_F32", "FUSED_F32", "SCALE_F32", "SCALE_F64", "apply_table", "value_table"]

SCALE_F64: Final = "scale-f64"
"""Level times factor in float64, then rounded: transformers, and where nothing is said."""
SCALE_F32: Final = "scale-f32"
"""Level times factor in float32: mlx-vlm's processors in numpy."""
DIVIDE_F32: Final = "divide-f32"
"""Level by 255 in float32, whatever the factor: mlx-vlm's InternVL."""
FUSED_F32: Final = "fused-f32"
"""The factor goes into mean and deviation: transformers' processors that run on torch."""


def value_table(settings: Mapping[str, Any]) -> NDArray[np.float32]:
    """(3, 256) float32: the value of each level of each channel.

    Rescaling is as ``settings["arithmetic"]`` names it; normalising is float32 throughout.

    Raises:
        ModelError: a level would become infinity or NaN, or the arithmetic is not known.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # looked for at the end
        values = _rescaled(settings)
        table = np.repeat(values[np.newaxis], 3, axis=0)
        if settings["do_normalize"]:
            mean = np.array(settings["image_mean"], np.float32)[:, np.newaxis]
            std = np.array(settings["image_std"], np.float32)[:, np.newaxis]
            if settings["do_rescale"] and settings.get("arithmetic") == FUSED_F32:
                mean, std = (
                    part * np.float32(1.0 / settings["rescale_factor"]) for part in (mean, std)
                )
            table = (table - mean) / std
    if not np.isfinite(table).all():
        raise ModelError(
            "`rescale_factor`, `image_mean`, `image_std`: expected finite pixels, found infinity "
            "or NaN; no `image_std` may be 0"
        )
    return table


def _rescaled(settings: Mapping[str, Any]) -> NDArray[np.float32]:
    levels = np.arange(256, dtype=np.float32)
    if not settings["do_rescale"]:
        return levels
    arithmetic = settings.get("arithmetic", SCALE_F64)
    if arithmetic == FUSED_F32:
        return levels
    if arithmetic == DIVIDE_F32:
        return np.divide(levels, np.float32(255), dtype=np.float32)
    if arithmetic == SCALE_F32:
        return np.multiply(levels, np.float32(settings["rescale_factor"]), dtype=np.float32)
    if arithmetic == SCALE_F64:
        scaled: NDArray[np.float64] = levels.astype(np.float64) * settings["rescale_factor"]
        return scaled.astype(np.float32)
    raise ModelError(f"unknown arithmetic `{arithmetic}`")


def apply_table(
    table: NDArray[np.float32],
    levels: NDArray[np.uint8],
    *,
    out: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """(C, H, W) float32 values of (H, W, C) uint8 `levels`.

    Args:
        out: where to put them; contiguous.
    """
    height, width, channels = levels.shape
    values = np.empty((channels, height, width), np.float32) if out is None else out
    for channel in range(channels):
        # `clip` writes into `values` directly; no level is outside the table.
        np.take(table[channel], levels[:, :, channel], out=values[channel], mode="clip")
    return values
