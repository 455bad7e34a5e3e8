"""The layers of towers over a grid: what they are called, their shapes, and one pass of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

from vcache_cli.encode.grids import frame_lengths, places, rotary, taps, windows
from vcache_cli.encode.transformer import linear_shapes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vcache_cli.encode.grids import Grid, Windows
    from vcache_cli.encode.ops import Array, Ops

    Settings: TypeAlias = Mapping[str, Any]
    Shapes: TypeAlias = dict[str, tuple[int, ...]]

__all__ = ["GridLayers", "PartNames", "grid_shapes"]


@dataclass(frozen=True, slots=True)
class PartNames:
    """What a family calls the parts of its tower, and so which it has."""

    mlp: tuple[str, ...]
    """Wider and narrower; of three, the activation of the first gates the second."""
    merger: tuple[str, str, str]
    """Norm, wider, narrower."""
    is_rms: bool = False
    """Norms by the mean square, which have no bias; else layer norms."""
    has_positions: bool = False
    """A bias of the patches, and a table of positions that is stretched over the grid."""


def grid_shapes(settings: Settings, parts: PartNames) -> Shapes:
    """Every tensor of the tower."""
    hidden, side = settings["hidden_size"], settings["patch_size"]
    patch = settings["in_channels"], settings["temporal_patch_size"], side, side
    shapes: Shapes = {"patch_embed.proj.weight": (hidden, *patch)}
    if parts.has_positions:
        shapes["patch_embed.proj.bias"] = (hidden,)
        shapes["pos_embed.weight"] = (settings["num_position_embeddings"], hidden)
    for number in range(settings["depth"]):
        shapes |= _block_shapes(f"blocks.{number}", settings, parts)
    shapes |= _merger_shapes("merger", settings, parts, norm_channels=hidden)
    wide = hidden * settings["spatial_merge_size"] ** 2
    for number in range(len(settings.get("deepstack_visual_indexes", ()))):
        name = f"deepstack_merger_list.{number}"
        shapes |= _merger_shapes(name, settings, parts, norm_channels=wide)
    return shapes


def _norm_shapes(name: str, channels: int, parts: PartNames) -> Shapes:
    names = ["weight"] if parts.is_rms else ["weight", "bias"]
    return {f"{name}.{each}": (channels,) for each in names}


def _block_shapes(name: str, settings: Settings, parts: PartNames) -> Shapes:
    hidden, wide = settings["hidden_size"], settings["intermediate_size"]
    shapes = _norm_shapes(f"{name}.norm1", hidden, parts)
    shapes |= _norm_shapes(f"{name}.norm2", hidden, parts)
    shapes |= linear_shapes(f"{name}.attn.qkv", hidden, 3 * hidden)
    shapes |= linear_shapes(f"{name}.attn.proj", hidden, hidden)
    for part in parts.mlp[:-1]:
        shapes |= linear_shapes(f"{name}.mlp.{part}", hidden, wide)
    return shapes | linear_shapes(f"{name}.mlp.{parts.mlp[-1]}", wide, hidden)


def _merger_shapes(
    name: str, settings: Settings, parts: PartNames, *, norm_channels: int
) -> Shapes:
    norm, first, second = parts.merger
    wide = settings["hidden_size"] * settings["spatial_merge_size"] ** 2
    shapes = _norm_shapes(f"{name}.{norm}", norm_channels, parts)
    shapes |= linear_shapes(f"{name}.{first}", wide, wide)
    return shapes | linear_shapes(f"{name}.{second}", wide, settings["out_hidden_size"])


@dataclass(frozen=True, slots=True)
class _Turns:
    """What every layer of a pass needs beside its weights."""

    cos: Array
    sin: Array
    frames: tuple[int, ...]
    """Where each frame ends, 0 first."""
    windows: tuple[int, ...]
    """Where each window ends, 0 first; the same as `frames` where there are none."""


@dataclass(frozen=True, slots=True)
class GridLayers:
    """One pass over packed patches."""

    ops: Ops
    arrays: Mapping[str, Array]
    settings: Settings
    parts: PartNames
    grids: Sequence[Grid]

    def run(self, pixels: Array) -> dict[str, Array]:
        """Packed `features` and `deepstack_0..n`, in the order of the items."""
        order = self._windows()
        x = self._arranged(self._embed(pixels), order)
        turns = self._turns(order)
        stacked: Sequence[int] = self.settings.get("deepstack_visual_indexes", ())
        outputs: dict[str, Array] = {}
        for number in range(self.settings["depth"]):
            x = self._block(number, x, turns)
            if number in stacked:
                name = f"deepstack_merger_list.{stacked.index(number)}"
                outputs[f"deepstack_{len(outputs)}"] = self._merge_wide(name, x)
        merged = self._merge("merger", x)
        outputs["features"] = merged if order is None else self.ops.take(merged, order.inverse)
        return outputs

    def _windows(self) -> Windows | None:
        if "window_size" not in self.settings:
            return None
        merge = self.settings["spatial_merge_size"]
        side = self.settings["window_size"] // merge // self.settings["patch_size"]
        return windows(self.grids, merge=merge, side=side)

    def _embed(self, pixels: Array) -> Array:
        x = self.linear("patch_embed.proj", pixels)
        if not self.parts.has_positions:
            return x
        side = math.isqrt(self.settings["num_position_embeddings"])
        found = taps(self.grids, merge=self.settings["spatial_merge_size"], side=side)
        for rows, shares in zip(found.rows.T, found.weights.T, strict=True):
            learnt = self.ops.take(self.arrays["pos_embed.weight"], rows)
            x = self.ops.add(x, self.ops.mul(learnt, self.ops.constant(shares[:, None])))
        return x

    def _arranged(self, x: Array, order: Windows | None) -> Array:
        """Window by window; the patches of a token stay together."""
        if order is None:
            return x
        hidden = self.settings["hidden_size"]
        tokens = self.ops.reshape(x, (len(order.order), -1))
        return self.ops.reshape(self.ops.take(tokens, order.order), (-1, hidden))

    def _turns(self, order: Windows | None) -> _Turns:
        width = self.settings["hidden_size"] // self.settings["num_heads"]
        where = places(self.grids, merge=self.settings["spatial_merge_size"])
        if order is not None:
            where = where.reshape(2, len(order.order), -1)[:, order.order].reshape(2, -1)
        cos, sin = rotary(where, width=width, theta=self.settings["rope_theta"])
        frames = _ends(frame_lengths(self.grids))
        inside = frames if order is None else _ends(order.lengths)
        return _Turns(self.ops.constant(cos), self.ops.constant(sin), frames, inside)

    def linear(self, name: str, x: Array) -> Array:
        """Through the linear layer `name`; a layer without a bias has no such tensor."""
        return self.ops.linear(x, self.arrays[f"{name}.weight"], self.arrays.get(f"{name}.bias"))

    def norm(self, name: str, x: Array) -> Array:
        """Through the norm `name`."""
        weight, epsilon = self.arrays[f"{name}.weight"], self.settings["layer_norm_eps"]
        if self.parts.is_rms:
            return self.ops.rms_norm(x, weight, epsilon=epsilon)
        return self.ops.layer_norm(x, weight, self.arrays[f"{name}.bias"], epsilon=epsilon)

    def _block(self, number: int, x: Array, turns: _Turns) -> Array:
        name = f"blocks.{number}"
        is_whole = number in self.settings.get("fullatt_block_indexes", ())
        bounds = turns.frames if is_whole else turns.windows
        normed = self.norm(f"{name}.norm1", x)
        x = self.ops.add(x, self._attention(f"{name}.attn", normed, turns, bounds))
        return self.ops.add(x, self._mlp(f"{name}.mlp", self.norm(f"{name}.norm2", x)))

    def _attention(self, name: str, x: Array, turns: _Turns, bounds: tuple[int, ...]) -> Array:
        heads = self.settings["num_heads"]
        query, key, value = (self._third(f"{name}.qkv", part, x) for part in range(3))
        query, key = (
            self.ops.rotate(each, turns.cos, turns.sin, num_heads=heads) for each in (query, key)
        )
        attended = self.ops.segment_attention(query, key, value, num_heads=heads, bounds=bounds)
        return self.linear(f"{name}.proj", attended)

    def _third(self, name: str, part: int, x: Array) -> Array:
        """Query, key and value (0, 1, 2) lie in one matrix, one below the other."""
        hidden = self.settings["hidden_size"]
        weight, bias = (
            self.ops.rows(
                self.arrays[f"{name}.{each}"], begin=part * hidden, end=(part + 1) * hidden
            )
            for each in ("weight", "bias")
        )
        return self.ops.linear(x, weight, bias)

    def _mlp(self, name: str, x: Array) -> Array:
        first, *gated, last = self.parts.mlp
        active = self.ops.activation(
            self.linear(f"{name}.{first}", x), name=self.settings["hidden_act"]
        )
        for part in gated:
            active = self.ops.mul(active, self.linear(f"{name}.{part}", x))
        return self.linear(f"{name}.{last}", active)

    def _merge(self, name: str, x: Array) -> Array:
        """Normed by the patch, then one token of each block."""
        return self._narrow(name, self._wide(self.norm(f"{name}.{self.parts.merger[0]}", x)))

    def _merge_wide(self, name: str, x: Array) -> Array:
        """Normed by the block."""
        return self._narrow(name, self.norm(f"{name}.{self.parts.merger[0]}", self._wide(x)))

    def _wide(self, x: Array) -> Array:
        block = self.settings["spatial_merge_size"] ** 2
        return self.ops.reshape(x, (-1, block * self.settings["hidden_size"]))

    def _narrow(self, name: str, x: Array) -> Array:
        _, first, second = self.parts.merger
        active = self.ops.activation(self.linear(f"{name}.{first}", x), name="gelu")
        return self.linear(f"{name}.{second}", active)


def _ends(lengths: Sequence[int]) -> tuple[int, ...]:
    return (0, *accumulate(lengths))
