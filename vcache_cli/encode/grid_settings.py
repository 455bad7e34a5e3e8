"""What the configuration of a tower over a grid of patches says, every default filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.encode.planning import ACTIVATION_NAMES, MAX_LAYERS
from vcache_cli.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Final

    from vcache_cli.checkpoint import Checkpoint

__all__ = ["EPSILON", "grid_settings", "grid_vision_config"]

EPSILON: Final = 1e-6
"""Of every norm: these families have it in their code, not in their configuration."""

_THETA: Final = 10_000.0
_ALIASES: Final = {"depth": "num_hidden_layers", "num_heads": "num_attention_heads"}
"""The other name under which transformers takes a setting."""


def grid_vision_config(checkpoint: Checkpoint, family: str) -> Mapping[str, Any]:
    """The vision part: nested in the whole model's configuration, or the configuration itself.

    Raises:
        ModelError: there is none, or it is another family's.
    """
    alone = f"{family}_vision", f"{family}_moe_vision"  # no sets: a list may be asked for
    config = checkpoint.config
    nested = config.get("vision_config")
    found = nested if isinstance(nested, dict) else config
    kind = found.get("model_type", family if found is nested else None)
    if kind in alone or (found is nested and kind in (family, f"{family}_moe")):
        return found
    raise ModelError(
        f"{checkpoint.folder}: expected a `vision_config` of {family}, or `model_type` "
        f"`{family}_vision`, in config.json; found `{kind}`",
        hint="give a checkpoint that has a vision tower",
    )


def grid_settings(
    checkpoint: Checkpoint,
    config: Mapping[str, Any],
    defaults: Mapping[str, Any],
    *,
    resolve: Callable[[dict[str, Any]], dict[str, Any]],
) -> dict[str, Any]:
    """What decides the arithmetic, by one set of names for all families.

    Args:
        checkpoint: to name it in messages.
        config: of the vision part.
        defaults: what the family's configuration fills in, which says of what kind each is.
        resolve: gives the settings their common names.

    Raises:
        ModelError: a value that makes no sense, or something that we do not have.
    """
    where = f"{checkpoint.folder}: config.json"
    settings = {name: _value(config, name, default) for name, default in defaults.items()}
    for name, value in settings.items():
        if not _is_like(value, defaults[name]):
            raise ModelError(f"{where}: expected `{name}` like {defaults[name]!r}, found {value!r}")
    if settings["hidden_act"] not in ACTIVATION_NAMES:
        raise ModelError(
            f"{where}: expected `hidden_act` as one of {', '.join(ACTIVATION_NAMES)}, "
            f"found {settings['hidden_act']!r}"
        )
    settings["hidden_act"] = ACTIVATION_NAMES[settings["hidden_act"]]
    settings = resolve(settings)
    _check_sizes(where, settings)
    _check_deepstack(where, settings)
    return settings | {"layer_norm_eps": EPSILON, "rope_theta": _theta(where, config)}


def _value(config: Mapping[str, Any], name: str, default: object) -> Any:  # noqa: ANN401  JSON
    found = config.get(name, config.get(_ALIASES.get(name, name), default))
    return list(found) if isinstance(found, tuple) else found


def _is_like(value: object, like: object) -> bool:
    """Text like text, a positive count like a count, a list of layers like such a list."""
    if isinstance(like, str):
        return isinstance(value, str)
    if isinstance(like, list):
        return isinstance(value, list) and all(type(each) is int and each >= 0 for each in value)
    return type(value) is int and 0 < value < 2**31


def _check_sizes(where: str, settings: Mapping[str, Any]) -> None:
    if settings["depth"] > MAX_LAYERS:
        raise ModelError(
            f"{where}: expected `depth` of at most {MAX_LAYERS}, found {settings['depth']}"
        )
    hidden, heads = settings["hidden_size"], settings["num_heads"]
    if hidden % (4 * heads):
        raise ModelError(
            f"{where}: expected heads whose width is a multiple of 4, found {heads} heads of "
            f"{hidden} channels"
        )
    token_side = settings["spatial_merge_size"] * settings["patch_size"]
    if settings.get("window_size", token_side) < token_side:
        raise ModelError(
            f"{where}: expected `window_size` of at least a token's {token_side} pixels, "
            f"found {settings['window_size']}"
        )


def _check_deepstack(where: str, settings: Mapping[str, Any]) -> None:
    """The language model takes one of each; a layer that is not there would give none."""
    layers = settings.get("deepstack_visual_indexes", [])
    if len({*layers}) < len(layers) or max(layers, default=0) >= settings["depth"]:
        raise ModelError(
            f"{where}: expected `deepstack_visual_indexes` as different layers below "
            f"{settings['depth']}, found {layers}"
        )


def _theta(where: str, config: Mapping[str, Any]) -> float:
    """The base of the rotary frequencies, where a configuration of transformers has it.

    Raises:
        ModelError: another kind of rotary positions.
    """
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if not isinstance(rope, dict):
        raise ModelError(f"{where}: expected `rope_parameters` as an object, found {rope!r}")
    kind = rope.get("rope_type", rope.get("type", "default"))
    theta = rope.get("rope_theta", config.get("rope_theta", _THETA))
    is_number = isinstance(theta, (int, float)) and not isinstance(theta, bool)
    if kind not in ("axial", "default") or not (is_number and 1 < theta < 2**63):
        raise ModelError(
            f"{where}: expected axial rotary positions of a base above 1 for the vision part, "
            f"found `{kind}` of {theta!r}"
        )
    return float(theta)
