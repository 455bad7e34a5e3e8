"""Gemma 3: a SigLIP tower, its patches averaged in squares, and one matrix behind a norm."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from vcache_cli.encode.pictures import PIXELS, pixels_error, square_shape
from vcache_cli.encode.planning import (
    common_settings,
    find_prefix,
    join_plans,
    plan_tensors,
    vision_config,
)
from vcache_cli.encode.siglip import DEFAULTS, PATCHES, embed_pixels, layered_shapes
from vcache_cli.encode.transformer import Weights, norm_shapes
from vcache_cli.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

    import numpy as np
    from numpy.typing import NDArray

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.encode.ops import Array, Ops
    from vcache_cli.protocols import TowerPlan

__all__ = ["TOWER", "Gemma3Tower"]

_NORM: Final = "multi_modal_projector.mm_soft_emb_norm.weight"
_MATRIX: Final = "multi_modal_projector.mm_input_projection_weight"
_DEFAULT_TOKENS: Final = 256
_PICTURE_AXES: Final = 3
_SIDES: Final = 2


class Gemma3Tower:
    """`projected`: as the language model takes them. `hidden`: the normed states of all patches.

    An item is one picture, or the picture and its crops: their tokens follow each other.
    """

    name = "gemma3"
    revision = 1
    outputs = ("projected", "hidden")

    def plan(self, checkpoint: Checkpoint, output: str) -> TowerPlan:
        """What to read.

        Raises:
            ModelError: no SigLIP vision part, a missing or misshapen tensor, an unknown setting.
        """
        config = vision_config(checkpoint, "siglip")
        settings = common_settings(checkpoint, config, DEFAULTS) | {"output": output}
        settings["pooled_side"] = _pooled_side(checkpoint, settings)
        shapes = layered_shapes(settings) | norm_shapes("post_layernorm", settings["hidden_size"])
        prefix = find_prefix(checkpoint, f"{PATCHES}.weight", shapes)
        tower = plan_tensors(checkpoint, prefix, shapes, settings)
        if output == "hidden":
            return tower
        prefix = find_prefix(checkpoint, _MATRIX, {})
        settings["projected_size"] = _width(checkpoint, prefix + _MATRIX)
        shapes = _projector_shapes(settings)
        axes = {_MATRIX: (1, 0)}  # stored as (in, out)
        return join_plans(
            settings, tower, plan_tensors(checkpoint, prefix, shapes, settings, axes=axes)
        )

    def pixel_shape(self, settings: Mapping[str, Any]) -> tuple[int, ...]:
        """(C, H, W) of a picture, and of each of its crops."""
        return square_shape(settings)

    def feature_shapes(
        self, settings: Mapping[str, Any], num_tokens: int
    ) -> dict[str, tuple[int, ...]]:
        """As wide as the language model, or as the tower."""
        width = settings.get("projected_size") or settings["hidden_size"]
        return {"features": (num_tokens, width)}

    def cost(self, settings: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> int:
        """Patches of the picture and its crops.

        Raises:
            EncodeError: pixels of another size.
        """
        array, expected = tensors.get(PIXELS), square_shape(settings)
        if array is None or array.shape[-_PICTURE_AXES:] != expected or not array.size:
            raise pixels_error(str(list(expected)), array)
        if array.ndim > _PICTURE_AXES + 1:
            raise pixels_error(f"{list(expected)}, or several of them", array)
        return _side(settings) ** 2 * _num_pictures(array)

    def forward(
        self,
        ops: Ops,
        weights: Mapping[str, Array],
        settings: Mapping[str, Any],
        batch: Sequence[Mapping[str, NDArray[Any]]],
    ) -> dict[str, list[NDArray[np.float32]]]:
        """`features` (num_tokens, width) of each item."""
        tower = Weights(ops, weights, settings)
        arrays = [item[PIXELS] for item in batch]
        pixels = ops.pack([array.reshape(-1, *square_shape(settings)) for array in arrays])
        x = tower.norm("post_layernorm", tower.layers(embed_pixels(tower, pixels)))
        per_picture = _side(settings) ** 2
        if settings["output"] == "projected":
            x, per_picture = _projected(tower, x), settings["pooled_side"] ** 2
        packed = ops.reshape(x, (-1, _width_of(settings)))
        counts = [per_picture * _num_pictures(array) for array in arrays]
        return {"features": ops.split(packed, counts)}


def _side(settings: Mapping[str, Any]) -> int:
    """Patches along a picture's side."""
    return int(settings["image_size"]) // int(settings["patch_size"])


def _num_pictures(array: NDArray[Any]) -> int:
    return 1 if array.ndim == _PICTURE_AXES else len(array)


def _width_of(settings: Mapping[str, Any]) -> int:
    return int(settings.get("projected_size") or settings["hidden_size"])


def _pooled_side(checkpoint: Checkpoint, settings: Mapping[str, Any]) -> int:
    """Tokens along a picture's side; what is left over beyond whole squares is cut off."""
    said = checkpoint.config.get("mm_tokens_per_image", _DEFAULT_TOKENS)
    is_count = isinstance(said, int) and not isinstance(said, bool)
    side = _side(settings)
    if not is_count or not 0 < said <= side * side:
        raise ModelError(
            f"{checkpoint.folder}: config.json: expected `mm_tokens_per_image` from 1 to the "
            f"{side * side} patches of a picture, found {said!r:.60}"
        )
    return side // (side // math.isqrt(said))


def _width(checkpoint: Checkpoint, name: str) -> int:
    """Of the language model, as the projector's matrix has it."""
    shape = checkpoint.tensors[name].shape
    if len(shape) != _SIDES or not all(shape):
        raise ModelError(
            f"{checkpoint.folder}: expected tensor `{name}` as a matrix, found {list(shape)}"
        )
    return shape[1]


def _projector_shapes(settings: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    hidden = settings["hidden_size"]
    return {_NORM: (hidden,), _MATRIX: (settings["projected_size"], hidden)}


def _projected(tower: Weights, x: Array) -> Array:
    """Means of squares, the norm, the matrix: (N, pooled tokens, width)."""
    ops, settings = tower.ops, tower.settings
    side, pooled = _side(settings), settings["pooled_side"]
    square = side // pooled
    whole = pooled * square
    if whole != side:
        x = _cropped(tower, x, side=side, whole=whole)
    means = ops.pool_grid(x, height=whole, width=whole, side=square)
    epsilon = settings["layer_norm_eps"]
    normed = ops.rms_norm(means, tower.arrays[_NORM], epsilon=epsilon, shift=1.0)
    return ops.linear(normed, tower.arrays[_MATRIX], None)


def _cropped(tower: Weights, x: Array, *, side: int, whole: int) -> Array:
    """(N, side * side, D) to its first `whole` rows and columns of patches."""
    ops, channels = tower.ops, tower.settings["hidden_size"]
    rows = ops.tokens(x, begin=0, end=whole * side)
    columns = ops.tokens(ops.reshape(rows, (-1, side, channels)), begin=0, end=whole)
    return ops.reshape(columns, (-1, whole * whole, channels))


TOWER: Final = Gemma3Tower()
