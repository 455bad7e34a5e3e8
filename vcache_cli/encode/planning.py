"""From a checkpoint to a `TowerPlan`: the vision part's settings, its prefix, its tensors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vcache_cli.checkpoint import missing_weights
from vcache_cli.errors import ModelError
from vcache_cli.protocols import TowerPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

    from vcache_cli.checkpoint import Checkpoint

    Shapes = Mapping[str, tuple[int, ...]]

__all__ = [
    "ACTIVATION_NAMES",
    "common_settings",
    "find_prefix",
    "join_plans",
    "plan_tensors",
    "vision_config",
]

FLOAT_DTYPES: Final = frozenset({"BF16", "F16", "F32"})
"""Dtypes of weights that are computed with."""

_SHOWN_LETTERS: Final = 120
"""Of a quantisation that is not known."""

MAX_LAYERS: Final = 1_000
"""Every layer's tensors are named before they are looked for: a larger number has no end."""

ACTIVATION_NAMES: Final[Mapping[str, str]] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "silu": "silu",
}
"""`hidden_act` of a configuration to a name of `ops.ACTIVATIONS`."""


def vision_config(checkpoint: Checkpoint, family: str) -> Mapping[str, Any]:
    """The configuration of the vision part: nested in a larger model's, or the whole.

    Raises:
        ModelError: there is none, or it is another family's.
    """
    config = checkpoint.config
    nested = config.get("vision_config_dict") or config.get("vision_config")
    alone = config.get("model_type") == f"{family}_vision_model"
    found = nested if isinstance(nested, dict) else config if alone else None
    if found is None:
        raise ModelError(
            f"{checkpoint.folder}: expected a `vision_config`, or `model_type` "
            f"`{family}_vision_model`, in config.json; found `model_type` "
            f"`{config.get('model_type')}` without a vision part",
            hint="give a checkpoint that has a vision tower",
        )
    kind = found.get("model_type", family)
    if kind not in (family, f"{family}_vision_model"):  # a list is no member of a set
        raise ModelError(f"{checkpoint.folder}: expected a {family} vision part, found `{kind}`")
    return found


def common_settings(
    checkpoint: Checkpoint, config: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """What decides the arithmetic of a vision transformer, every default filled in.

    Raises:
        ModelError: a value that makes no sense, or an activation that we do not have.
    """
    merged = {name: config.get(name, value) for name, value in defaults.items()}
    for name, value in merged.items():
        if not _is_sensible(value, defaults[name]):
            raise ModelError(
                f"{checkpoint.folder}: config.json: expected `{name}` like {defaults[name]!r}, "
                f"found {value!r}"
            )
    activation = ACTIVATION_NAMES.get(merged["hidden_act"])
    if activation is None:
        raise ModelError(
            f"{checkpoint.folder}: config.json: expected `hidden_act` as one of "
            f"{', '.join(ACTIVATION_NAMES)}, found {merged['hidden_act']!r}"
        )
    if merged["num_hidden_layers"] > MAX_LAYERS:
        raise ModelError(
            f"{checkpoint.folder}: config.json: expected `num_hidden_layers` of at most "
            f"{MAX_LAYERS}, found {merged['num_hidden_layers']}"
        )
    heads, hidden, side = (merged[name] for name in _SIZES)
    if hidden % heads or merged["image_size"] < side:
        raise ModelError(
            f"{checkpoint.folder}: config.json: expected heads that divide the hidden size and "
            f"patches inside the picture, found {heads} heads of {hidden} channels, patches of "
            f"{side} in {merged['image_size']} pixels"
        )
    return {**merged, "hidden_act": activation, "layer_norm_eps": float(merged["layer_norm_eps"])}


_SIZES: Final = ("num_attention_heads", "hidden_size", "patch_size")


def _is_sensible(value: object, like: object) -> bool:
    """Text like text, a positive count like a count, a positive number like a number."""
    if isinstance(like, str):
        return isinstance(value, str)
    if isinstance(like, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(like, bool)
    allowed = int if isinstance(like, int) else (int, float)
    return isinstance(value, allowed) and 0 < value < 2**31


def find_prefix(checkpoint: Checkpoint, landmark: str, shapes: Shapes) -> str:
    """What stands before the tower's own names in this checkpoint: ``""``, ``vision_model.``, ...

    Args:
        checkpoint: a tower alone, or a larger model.
        landmark: own name of a tensor that every tower of the family has and nothing else.
        shapes: of all tensors; of several towers, the one that fits is taken.

    Raises:
        ModelError: no tower there, or several that fit.
    """
    ends = ("", ".")
    found = sorted(
        name[: -len(landmark)]
        for name in checkpoint.tensors
        if name.endswith(landmark) and name[: -len(landmark)][-1:] in ends
    )
    if len(found) > 1:
        fitting = [prefix for prefix in found if _fits(checkpoint, prefix, shapes)]
        found = fitting or found
    if len(found) == 1:
        return found[0]
    shown = ", ".join(f"`{prefix}{landmark}`" for prefix in found[:3]) or "none"
    raise ModelError(
        f"{checkpoint.folder}: expected one tensor `...{landmark}` among the "
        f"{len(checkpoint.tensors)} of the checkpoint, found {shown}",
        hint="give a checkpoint whose weights hold one vision tower",
    )


def _fits(checkpoint: Checkpoint, prefix: str, shapes: Shapes) -> bool:
    places = {name: checkpoint.tensors.get(prefix + name) for name in shapes}
    return all(
        place is not None and _stored_axes(place.shape, shapes[name]) is not None
        for name, place in places.items()
    )


def plan_tensors(
    checkpoint: Checkpoint,
    prefix: str,
    shapes: Shapes,
    settings: Mapping[str, Any],
    *,
    axes: Mapping[str, tuple[int, ...]] | None = None,
) -> TowerPlan:
    """The plan, once every tensor is known to be there as expected.

    Convolutions may be stored as published, (out, in, ...), or as MLX takes them, (out, ..., in).

    Args:
        checkpoint: where the tensors lie.
        prefix: what stands before the own names.
        shapes: by own name, as the tower computes with them.
        settings: of the plan.
        axes: of tensors that every checkpoint stores in another order, how to transpose them.

    Raises:
        ModelError: names the first tensor that is missing or misshapen, expected and found.
    """
    turned = dict(axes or {})
    _check_present(checkpoint, [prefix + name for name in shapes])
    for name, expected in shapes.items():
        place = checkpoint.tensors.get(prefix + name)
        if place is None:
            raise ModelError(
                f"{checkpoint.folder}: expected tensor `{prefix}{name}` {list(expected)}, "
                "found no such tensor",
                hint="the checkpoint is incomplete, or config.json is another model's"
                + _quantisation(checkpoint),
            )
        found = _stored_axes(place.shape, expected, turned.get(name))
        if found is None or place.dtype not in FLOAT_DTYPES:
            stored = _untransposed(expected, turned.get(name))
            raise ModelError(
                f"{place.path}: expected tensor `{prefix}{name}` {list(stored)} in "
                f"F32, F16 or BF16, found {list(place.shape)} in {place.dtype}",
                hint=_hint(checkpoint, place.dtype),
            )
        if found:
            turned[name] = found
    return TowerPlan(settings, {name: prefix + name for name in shapes}, shapes, turned)


def _hint(checkpoint: Checkpoint, dtype: str) -> str:
    """What may be wrong with a tensor that does not fit."""
    if dtype in FLOAT_DTYPES:
        return "config.json and weights do not belong together"
    return (
        "known are plain weights, and MLX's affine quantisation with 2, 4 or 8 bits whose "
        f"`.scales` and `.biases` fit{_quantisation(checkpoint)}"
    )


def _quantisation(checkpoint: Checkpoint) -> str:
    """What the configuration says of it; empty where it says nothing."""
    rules = checkpoint.config.get("quantization") or checkpoint.config.get("quantization_config")
    return f"; config.json says {json.dumps(rules)[:_SHOWN_LETTERS]}" if rules else ""


def _check_present(checkpoint: Checkpoint, names: Iterable[str]) -> None:
    """Say all at once which files a half download lacks."""
    places = ((name, checkpoint.tensors.get(name)) for name in names)
    missing = [(name, place) for name, place in places if place and place.missing]
    if missing:
        raise missing_weights(missing)


def join_plans(settings: Mapping[str, Any], *plans: TowerPlan) -> TowerPlan:
    """One plan of the parts of a model that lie under several prefixes.

    Own names must differ; the parts' own settings give way to `settings`.
    """
    tensors: dict[str, str] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    axes: dict[str, tuple[int, ...]] = {}
    for plan in plans:
        tensors |= plan.tensors
        shapes |= plan.shapes
        axes |= plan.axes
    return TowerPlan(settings, tensors, shapes, axes)


def _stored_axes(
    found: tuple[int, ...], expected: tuple[int, ...], axes: tuple[int, ...] | None = None
) -> tuple[int, ...] | None:
    """How to transpose what was found; () where it lies as expected, None where it does not fit."""
    if axes is not None:
        return axes if found == _untransposed(expected, axes) else None
    if found == expected:
        return ()
    channels_last = (0, len(expected) - 1, *range(1, len(expected) - 1))
    if len(expected) > 3 and found == _untransposed(expected, channels_last):
        return channels_last
    return None


def _untransposed(shape: tuple[int, ...], axes: tuple[int, ...] | None) -> tuple[int, ...]:
    """The shape that `axes` turn into `shape`."""
    if axes is None:
        return shape
    stored = dict(zip(axes, shape, strict=True))
    return tuple(stored[axis] for axis in range(len(axes)))
