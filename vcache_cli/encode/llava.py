"""LLaVA: a CLIP or SigLIP tower read out before its end, and two layers into the language model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.encode import clip, siglip
from vcache_cli.encode.pictures import PIXELS, square_cost, square_shape
from vcache_cli.encode.planning import (
    ACTIVATION_NAMES,
    common_settings,
    find_prefix,
    join_plans,
    plan_tensors,
    vision_config,
)
from vcache_cli.encode.transformer import Weights
from vcache_cli.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType
    from typing import Final

    import numpy as np
    from numpy.typing import NDArray

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.encode.ops import Array, Ops
    from vcache_cli.protocols import TowerPlan

__all__ = ["TOWER", "LlavaTower"]

_TOWERS: Final[Mapping[str, ModuleType]] = {"clip": clip, "siglip": siglip}
_CLASS_TOKENS: Final = {"clip": 1, "siglip": 0}
_FIRST_TOKENS: Final = {"default": 1, "full": 0}
"""By strategy: `default` leaves the first token out, whether or not it is a class token."""

_INNER: Final = "multi_modal_projector.linear_1"
_OUTER: Final = "multi_modal_projector.linear_2"
_DEFAULT_LAYER: Final = -2
_MATRIX: Final = 2


class LlavaTower:
    """`projected`: as the language model takes them. `hidden`: what the projector takes.

    That is the state after one layer, or those after several beside each other, without a final
    norm; layers beyond the last one that is asked for are not read.
    """

    name = "llava"
    revision = 1
    outputs = ("projected", "hidden")

    def plan(self, checkpoint: Checkpoint, output: str) -> TowerPlan:
        """What to read.

        Raises:
            ModelError: no vision part that is known, a missing or misshapen tensor, an unknown
                setting.
        """
        settings = _settings(checkpoint, output)
        family = _TOWERS[settings["tower"]]
        shapes = family.layered_shapes(settings)
        prefix = find_prefix(checkpoint, f"{family.PATCHES}.weight", shapes)
        tower = plan_tensors(checkpoint, prefix, shapes, settings)
        if output == "hidden":
            return tower
        prefix = find_prefix(checkpoint, f"{_INNER}.weight", {})
        settings |= _projector_settings(checkpoint, prefix)
        projector = plan_tensors(checkpoint, prefix, _projector_shapes(settings), settings)
        return join_plans(settings, tower, projector)

    def pixel_shape(self, settings: Mapping[str, Any]) -> tuple[int, ...]:
        """(C, H, W): positions are learnt for one size."""
        return square_shape(settings)

    def feature_shapes(
        self, settings: Mapping[str, Any], num_tokens: int
    ) -> dict[str, tuple[int, ...]]:
        """As wide as the language model, or as all layers that are read out."""
        width = settings.get("projected_size") or _hidden_width(settings)
        return {"features": (num_tokens, width)}

    def cost(self, settings: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> int:
        """Patches of one picture.

        Raises:
            EncodeError: pixels of another size.
        """
        return square_cost(settings, tensors)

    def forward(
        self,
        ops: Ops,
        weights: Mapping[str, Array],
        settings: Mapping[str, Any],
        batch: Sequence[Mapping[str, NDArray[Any]]],
    ) -> dict[str, list[NDArray[np.float32]]]:
        """`features` (num_tokens, width) of each item."""
        tower = Weights(ops, weights, settings)
        pixels = ops.stack([item[PIXELS] for item in batch])
        features = _selected(tower, _TOWERS[settings["tower"]].embed_pixels(tower, pixels))
        if settings["output"] == "projected":
            wide = ops.activation(tower.linear(_INNER, features), name=settings["projector_act"])
            features = tower.linear(_OUTER, wide)
        return {"features": ops.unstack(features)}


def _settings(checkpoint: Checkpoint, output: str) -> dict[str, Any]:
    """What decides the arithmetic of the tower, up to the deepest layer that is read out."""
    family = _tower_of(checkpoint)
    config = vision_config(checkpoint, family)
    settings = common_settings(checkpoint, config, _TOWERS[family].DEFAULTS)
    depths = _depths(checkpoint, settings["num_hidden_layers"])
    strategy = checkpoint.config.get("vision_feature_select_strategy", "default")
    if not isinstance(strategy, str) or strategy not in _FIRST_TOKENS:
        raise _unexpected(
            checkpoint, "vision_feature_select_strategy", "`default` or `full`", strategy
        )
    return settings | {
        "tower": family,
        "output": output,
        "feature_layers": depths,
        "first_token": _FIRST_TOKENS[strategy],
        "num_hidden_layers": max(depths),
    }


def _tower_of(checkpoint: Checkpoint) -> str:
    nested = checkpoint.config.get("vision_config")
    kind = nested.get("model_type", "clip_vision_model") if isinstance(nested, dict) else None
    family = str(kind).removesuffix("_vision_model")
    if family not in _TOWERS:
        known = " or ".join(f"`{name}_vision_model`" for name in _TOWERS)
        raise _unexpected(checkpoint, "vision_config", f"a `model_type` of {known}", kind)
    return family


def _depths(checkpoint: Checkpoint, num_layers: int) -> list[int]:
    """After how many layers each state is taken; from the end where the number is negative."""
    said = checkpoint.config.get("vision_feature_layer", _DEFAULT_LAYER)
    numbers = said if isinstance(said, list) else [said]
    for number in numbers or [None]:
        is_number = isinstance(number, int) and not isinstance(number, bool)
        if not is_number or not -num_layers - 1 <= number <= num_layers:
            allowed = f"one or more of {-num_layers - 1} to {num_layers}"
            raise _unexpected(checkpoint, "vision_feature_layer", allowed, said)
    return [number % (num_layers + 1) for number in numbers]


def _projector_settings(checkpoint: Checkpoint, prefix: str) -> dict[str, Any]:
    """Its width is that of its weights: some checkpoints leave the language model's out."""
    act = checkpoint.config.get("projector_hidden_act", "gelu")
    if not isinstance(act, str) or act not in ACTIVATION_NAMES:
        known = "one of " + ", ".join(ACTIVATION_NAMES)
        raise _unexpected(checkpoint, "projector_hidden_act", known, act)
    shape = checkpoint.tensors[f"{prefix}{_INNER}.weight"].shape
    if len(shape) != _MATRIX or not all(shape):
        raise ModelError(
            f"{checkpoint.folder}: expected tensor `{prefix}{_INNER}.weight` as a matrix, "
            f"found {list(shape)}"
        )
    return {
        "projected_size": shape[0],
        "projector_act": ACTIVATION_NAMES[act],
        "projector_bias": checkpoint.config.get("multimodal_projector_bias", True) is not False,
    }


def _projector_shapes(settings: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    inner, outer = _hidden_width(settings), settings["projected_size"]
    shapes: dict[str, tuple[int, ...]] = {
        f"{_INNER}.weight": (outer, inner),
        f"{_OUTER}.weight": (outer, outer),
    }
    if settings["projector_bias"]:
        shapes |= {f"{name}.bias": (outer,) for name in (_INNER, _OUTER)}
    return shapes


def _hidden_width(settings: Mapping[str, Any]) -> int:
    return int(settings["hidden_size"]) * len(settings["feature_layers"])


def _selected(tower: Weights, x: Array) -> Array:
    """The states after the layers that are read out, side by side, without the first token."""
    settings, states, done = tower.settings, {}, 0
    side = settings["image_size"] // settings["patch_size"]
    end = side * side + _CLASS_TOKENS[settings["tower"]]
    for depth in sorted(set(settings["feature_layers"])):
        x = tower.layers(x, begin=done, end=depth)
        states[depth] = tower.ops.tokens(x, begin=settings["first_token"], end=end)
        done = depth
    return tower.ops.join([states[depth] for depth in settings["feature_layers"]])


def _unexpected(checkpoint: Checkpoint, name: str, expected: str, found: object) -> ModelError:
    return ModelError(
        f"{checkpoint.folder}: config.json: expected `{name}` as {expected}, found {found!r:.60}"
    )


TOWER: Final = LlavaTower()
