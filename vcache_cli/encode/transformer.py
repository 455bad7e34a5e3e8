"""The part that vision transformers share: layers that normalise before attention and MLP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vcache_cli.encode.ops import Array, Ops

__all__ = ["Weights", "layer_shapes", "linear_shapes", "mlp_shapes", "norm_shapes"]


def linear_shapes(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    """Weight and bias of one linear layer."""
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def norm_shapes(name: str, channels: int) -> dict[str, tuple[int, ...]]:
    """Weight and bias of one layer norm."""
    return {f"{name}.weight": (channels,), f"{name}.bias": (channels,)}


def mlp_shapes(name: str, settings: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The two linear layers around an activation."""
    hidden, wide = settings["hidden_size"], settings["intermediate_size"]
    widen = linear_shapes(f"{name}.fc1", hidden, wide)
    return widen | linear_shapes(f"{name}.fc2", wide, hidden)


def layer_shapes(settings: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Every tensor of the layers."""
    hidden = settings["hidden_size"]
    shapes: dict[str, tuple[int, ...]] = {}
    for number in range(settings["num_hidden_layers"]):
        layer = f"encoder.layers.{number}"
        shapes |= norm_shapes(f"{layer}.layer_norm1", hidden)
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            shapes |= linear_shapes(f"{layer}.self_attn.{part}", hidden, hidden)
        shapes |= norm_shapes(f"{layer}.layer_norm2", hidden)
        shapes |= mlp_shapes(f"{layer}.mlp", settings)
    return shapes


@dataclass(frozen=True, slots=True)
class Weights:
    """A tower's weights by its own names, and the steps that towers share."""

    ops: Ops
    arrays: Mapping[str, Array]
    settings: Mapping[str, Any]

    def linear(self, name: str, x: Array) -> Array:
        """Through the linear layer `name`; a layer without a bias has no such tensor."""
        bias = self.arrays.get(f"{name}.bias")
        return self.ops.linear(x, self.arrays[f"{name}.weight"], bias)

    def norm(self, name: str, x: Array) -> Array:
        """Through the layer norm `name`."""
        weight, bias = self.arrays[f"{name}.weight"], self.arrays[f"{name}.bias"]
        return self.ops.layer_norm(x, weight, bias, epsilon=self.settings["layer_norm_eps"])

    def mlp(self, name: str, x: Array) -> Array:
        """Wider, activation, narrower."""
        wide = self.linear(f"{name}.fc1", x)
        active = self.ops.activation(wide, name=self.settings["hidden_act"])
        return self.linear(f"{name}.fc2", active)

    def embed_patches(self, pixels: Array) -> Array:
        """(N, C, H, W) to a token for each patch, before positions."""
        cut = self.ops.patches(pixels, side=self.settings["patch_size"])
        return self.linear("embeddings.patch_embedding", cut)

    def add_positions(self, x: Array) -> Array:
        """Each token plus what its place says; consumes `x`."""
        return self.ops.add(x, self.arrays["embeddings.position_embedding.weight"])

    def layers(self, x: Array, *, begin: int = 0, end: int | None = None) -> Array:
        """Through the layers from `begin` to before `end`, or all; consumes `x`."""
        for number in range(begin, self.settings["num_hidden_layers"] if end is None else end):
            layer = f"encoder.layers.{number}"
            normed = self.norm(f"{layer}.layer_norm1", x)
            x = self.ops.add(x, self._self_attention(f"{layer}.self_attn", normed))
            normed = self.norm(f"{layer}.layer_norm2", x)
            x = self.ops.add(x, self.mlp(f"{layer}.mlp", normed))
        return x

    def _self_attention(self, name: str, x: Array) -> Array:
        query, key, value = (self.linear(f"{name}.{part}_proj", x) for part in "qkv")
        heads = self.settings["num_attention_heads"]
        attended = self.ops.attention(query, key, value, num_heads=heads)
        return self.linear(f"{name}.out_proj", attended)
