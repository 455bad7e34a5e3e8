"""Families whose pictures all get one fixed treatment: resize, centre crop, table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import ModelError
from vcache_cli.preprocess.processors import checked
from vcache_cli.preprocess.settings import (
    check_type,
    image_settings,
    patch_side,
    processor_json,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Final

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.preprocess.fixed_size import FixedSizePreprocessor
    from vcache_cli.profile import Profile

__all__ = ["FixedSizeFamily", "family_name"]

ALIASES: Final = {
    "internvl_chat": "internvl",  # the layout of its makers
    "qwen3_5_moe": "qwen3_5",
    "qwen3_vl_moe": "qwen3_vl",
}
"""Model types whose vision part is that of another."""


def family_name(config: Mapping[str, Any], *, known: Collection[str] = ("clip", "siglip")) -> str:
    """The family that serves a model's ``config.json``.

    A larger model without a family of its own is served by that of its vision tower, as is a
    `llava` around Pixtral's.

    Args:
        known: names of the families there are.

    Raises:
        ModelError: none does.

    >>> family_name({"model_type": "any", "vision_config": {"model_type": "clip_vision_model"}})
    'clip'
    """
    vision = config.get("vision_config")
    vision_type = vision.get("model_type") if isinstance(vision, dict) else None
    model_types = (config.get("model_type"), vision_type)
    if model_types == ("llava", "pixtral"):  # the form in which transformers publishes Pixtral
        model_types = ("pixtral", "llava")
    for model_type in model_types:
        name = str(model_type).removesuffix("_vision_model")
        name = ALIASES.get(name, name)
        if name in known:
            return name
    found = f"`{config.get('model_type')}`"
    if vision_type:
        found += f" with a vision part of `{vision_type}`"
    elif not isinstance(vision, dict):
        found += " without a vision part"
    raise ModelError(
        f"no family for a model of type {found}; known: {', '.join(sorted(known)) or 'none'}"
    )


@dataclass(frozen=True, slots=True)
class FixedSizeFamily:
    """Preprocessing of a family that differs from its neighbours by names and defaults only."""

    name: str
    """The `model_type`."""
    revision: int
    """Bumped by any change of ours that changes pixels."""
    model_types: tuple[str, ...]
    """Model types for which the server takes this processor where none is named."""
    processor_types: tuple[str, ...]
    """Names that its settings go by, without the endings ``Fast`` and ``Pil``."""
    defaults: Mapping[str, Any]
    """What the server's class says where the checkpoint does not."""
    patch_size: int
    """Side of a patch where the checkpoint does not say, pixels."""
    extra_tokens: int = 0
    """Rows of the tower's output beside the patches."""

    def resolve(self, checkpoint: Checkpoint, profile: Profile) -> dict[str, Any]:
        """Settings as the server resolves them: JSON values, every default filled in.

        Raises:
            ModelError: no settings, or some that cannot be followed.
        """
        found = processor_json(checkpoint)
        own = checkpoint.config.get("model_type") in self.model_types
        check_type(found, self.processor_types, default=own)
        settings = image_settings(found, self.defaults)
        settings["patch_size"] = patch_side(checkpoint.config, default=self.patch_size)
        settings["extra_tokens"] = self.extra_tokens
        return settings

    def preprocessor(self, settings: Mapping[str, Any], profile: Profile) -> FixedSizePreprocessor:
        """The preprocessor of resolved settings.

        Raises:
            ModelError: the profile's processors are not known here, or give no finite pixels.
        """
        from vcache_cli.preprocess.fixed_size import FixedSizePreprocessor  # needs numpy

        return checked(FixedSizePreprocessor(dict(settings)), profile)
