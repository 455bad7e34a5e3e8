"""SigLIP's vision tower: no class token, tanh GELU, a pooling head that attends with a probe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.encode.pictures import PIXELS, square_cost, square_shape
from vcache_cli.encode.planning import common_settings, find_prefix, plan_tensors, vision_config
from vcache_cli.encode.transformer import (
    Weights,
    layer_shapes,
    linear_shapes,
    mlp_shapes,
    norm_shapes,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

    import numpy as np
    from numpy.typing import NDArray

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.encode.ops import Array, Ops
    from vcache_cli.protocols import TowerPlan

__all__ = ["DEFAULTS", "PATCHES", "TOWER", "SiglipTower", "embed_pixels", "layered_shapes"]

PATCHES: Final = "embeddings.patch_embedding"
"""Every such tower has it, and nothing else does."""
_PROBE: Final = "head.probe"
DEFAULTS: Final[Mapping[str, Any]] = {
    "hidden_act": "gelu_pytorch_tanh",
    "hidden_size": 768,
    "image_size": 224,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-6,
    "num_attention_heads": 12,
    "num_channels": 3,
    "num_hidden_layers": 12,
    "patch_size": 16,
}
"""As transformers fills in what a `vision_config` leaves out."""


class SiglipTower:
    """`features` are the last hidden states after the final norm, one per patch, row by row.

    `pooled` is what the pooling head makes of them; a checkpoint without the head has none.
    """

    name = "siglip"
    revision = 1
    outputs = ("hidden",)

    def plan(self, checkpoint: Checkpoint, output: str = "hidden") -> TowerPlan:
        """What to read.

        Raises:
            ModelError: no SigLIP vision part, a missing or misshapen tensor, an unknown setting.
        """
        config = vision_config(checkpoint, self.name)
        settings = common_settings(checkpoint, config, DEFAULTS)
        shapes = layered_shapes(settings) | norm_shapes("post_layernorm", settings["hidden_size"])
        prefix = find_prefix(checkpoint, f"{PATCHES}.weight", shapes)
        head = _head_shapes(settings)
        wanted = config.get("vision_use_head", True) is not False
        # Any part tells of a head, so that one which lacks a part is refused.
        settings["pooling_head"] = wanted and any(
            prefix + name in checkpoint.tensors for name in head
        )
        if settings["pooling_head"]:
            shapes |= head
        return plan_tensors(checkpoint, prefix, shapes, settings)

    def pixel_shape(self, settings: Mapping[str, Any]) -> tuple[int, ...]:
        """(C, H, W): positions are learnt for one size."""
        return square_shape(settings)

    def feature_shapes(
        self, settings: Mapping[str, Any], num_tokens: int
    ) -> dict[str, tuple[int, ...]]:
        """Shapes of `features` and `pooled`."""
        shapes: dict[str, tuple[int, ...]] = {"features": (num_tokens, settings["hidden_size"])}
        if settings["pooling_head"]:
            shapes["pooled"] = (settings["hidden_size"],)
        return shapes

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
        if not settings["pooling_head"]:
            return {"features": ops.unstack(features)}
        pooled = _pool(tower, features)
        return {"features": ops.unstack(features), "pooled": ops.unstack(pooled)}


def layered_shapes(settings: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Every tensor from the pixels to the last layer."""
    hidden, side = settings["hidden_size"], settings["patch_size"]
    num_patches = (settings["image_size"] // side) ** 2
    return {
        f"{PATCHES}.weight": (hidden, settings["num_channels"], side, side),
        f"{PATCHES}.bias": (hidden,),
        "embeddings.position_embedding.weight": (num_patches, hidden),
        **layer_shapes(settings),
    }


def embed_pixels(tower: Weights, pixels: Array) -> Array:
    """(N, C, H, W) to what the first layer takes: a token for each patch, row by row."""
    return tower.add_positions(tower.embed_patches(pixels))


def _head_shapes(settings: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    hidden = settings["hidden_size"]
    return {
        _PROBE: (1, 1, hidden),
        "head.attention.in_proj_weight": (3 * hidden, hidden),
        "head.attention.in_proj_bias": (3 * hidden,),
        **linear_shapes("head.attention.out_proj", hidden, hidden),
        **norm_shapes("head.layernorm", hidden),
        **mlp_shapes("head.mlp", settings),
    }


def _pool(tower: Weights, features: Array) -> Array:
    """The probe attends to all tokens; then a residual MLP."""
    query = _in_projection(tower, 0, tower.arrays[_PROBE])
    key, value = (_in_projection(tower, part, features) for part in (1, 2))
    heads = tower.settings["num_attention_heads"]
    attended = tower.ops.attention(query, key, value, num_heads=heads)
    x = tower.linear("head.attention.out_proj", attended)
    refined = tower.mlp("head.mlp", tower.norm("head.layernorm", x))
    return tower.ops.token(tower.ops.add(x, refined), index=0)


def _in_projection(tower: Weights, part: int, x: Array) -> Array:
    """Query, key and value (0, 1, 2) lie in one matrix, one below the other."""
    hidden = tower.settings["hidden_size"]
    weight, bias = (
        tower.ops.rows(
            tower.arrays[f"head.attention.in_proj_{name}"],
            begin=part * hidden,
            end=(part + 1) * hidden,
        )
        for name in ("weight", "bias")
    )
    return tower.ops.linear(x, weight, bias)


TOWER: Final = SiglipTower()
