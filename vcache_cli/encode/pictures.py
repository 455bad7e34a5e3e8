"""Pixels of towers that take square pictures of one size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.errors import EncodeError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from numpy.typing import NDArray

__all__ = ["PIXELS", "pixels_error", "square_cost", "square_shape"]

PIXELS: Final = "pixel_values"
"""The tensor that every processor names so."""


def square_shape(settings: Mapping[str, Any]) -> tuple[int, int, int]:
    """(C, H, W) of the only picture that the settings allow."""
    side = int(settings["image_size"])
    return int(settings["num_channels"]), side, side


def square_cost(settings: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> int:
    """Patches of one picture.

    Raises:
        EncodeError: no picture, or one of another shape.
    """
    array, expected = tensors.get(PIXELS), square_shape(settings)
    if array is None or array.shape != expected:
        raise pixels_error(str(list(expected)), array)
    side: int = settings["image_size"] // settings["patch_size"]
    return side * side


def pixels_error(expected: str, found: NDArray[Any] | None, *, name: str = PIXELS) -> EncodeError:
    """The refusal of pixels that are not the tower's; `expected` is a shape in words."""
    shown = "none" if found is None else f"{list(found.shape)}"
    return EncodeError(
        f"expected `{name}` {expected}, got {shown}",
        kind="pixels_shape",
        hint="preprocessor_config.json and config.json of the model do not belong together",
    )
