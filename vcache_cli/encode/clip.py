"""CLIP's vision tower: a class token, a norm before the layers, quick GELU by default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.encode.pictures import PIXELS, square_cost, square_shape
from vcache_cli.encode.planning import common_settings, find_prefix, plan_tensors, vision_config
from vcache_cli.encode.transformer import Weights, layer_shapes, norm_shapes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

    import numpy as np
    from numpy.typing import NDArray

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.encode.ops import Array, Ops
    from vcache_cli.protocols import TowerPlan

__all__ = ["DEFAULTS", "PATCHES", "TOWER", "ClipTower", "embed_pixels", "layered_shapes"]

PATCHES: Final = "embeddings.patch_embedding"
"""Every such tower has it, and nothing else does."""
_CLASS: Final = "embeddings.class_embedding"
_FIRST_NORM: Final = "pre_layrnorm"  # spelt so in every published checkpoint
DEFAULTS: Final[Mapping[str, Any]] = {
    "hidden_act": "quick_gelu",
    "hidden_size": 768,
    "image_size": 224,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-5,
    "num_attention_heads": 12,
    "num_channels": 3,
    "num_hidden_layers": 12,
    "patch_size": 32,
}
"""As transformers fills in what a `vision_config` leaves out."""


class ClipTower:
    """`features` are the last hidden states after the final norm: class token first, then patches.

    transformers norms the class token alone and gives the others as they leave the last layer;
    here all tokens are normed alike, so that `pooled` is row 0 of `features`. The projection
    into the space shared with text is not applied.
    """

    name = "clip"
    revision = 1
    outputs = ("hidden",)

    def plan(self, checkpoint: Checkpoint, output: str = "hidden") -> TowerPlan:
        """What to read.

        Raises:
            ModelError: no CLIP vision part, a missing or misshapen tensor, an unknown setting.
        """
        config = vision_config(checkpoint, self.name)
        settings = common_settings(checkpoint, config, DEFAULTS)
        shapes = layered_shapes(settings) | norm_shapes("post_layernorm", settings["hidden_size"])
        prefix = find_prefix(checkpoint, f"{PATCHES}.weight", shapes)
        return plan_tensors(checkpoint, prefix, shapes, settings)

    def pixel_shape(self, settings: Mapping[str, Any]) -> tuple[int, ...]:
        """(C, H, W): positions are learnt for one size."""
        return square_shape(settings)

    def feature_shapes(
        self, settings: Mapping[str, Any], num_tokens: int
    ) -> dict[str, tuple[int, ...]]:
        """Shapes of `features` and `pooled`."""
        hidden = settings["hidden_size"]
        return {"features": (num_tokens, hidden), "pooled": (hidden,)}

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
        """`features` (num_tokens, hidden_size) and `pooled` (hidden_size,) of each item."""
        tower = Weights(ops, weights, settings)
        tokens = embed_pixels(tower, ops.stack([item[PIXELS] for item in batch]))
        features = tower.norm("post_layernorm", tower.layers(tokens))
        pooled = ops.token(features, index=0)
        return {"features": ops.unstack(features), "pooled": ops.unstack(pooled)}


def layered_shapes(settings: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Every tensor from the pixels to the last layer."""
    hidden, side = settings["hidden_size"], settings["patch_size"]
    num_patches = (settings["image_size"] // side) ** 2
    return {
        _CLASS: (hidden,),
        f"{PATCHES}.weight": (hidden, settings["num_channels"], side, side),
        "embeddings.position_embedding.weight": (num_patches + 1, hidden),
        **norm_shapes(_FIRST_NORM, hidden),
        **layer_shapes(settings),
    }


def embed_pixels(tower: Weights, pixels: Array) -> Array:
    """(N, C, H, W) to what the first layer takes: the class token, then the patches."""
    tokens = tower.ops.prepend(tower.arrays[_CLASS], tower.embed_patches(pixels))
    return tower.norm(_FIRST_NORM, tower.add_positions(tokens))


TOWER: Final = ClipTower()
