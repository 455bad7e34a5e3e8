"""Towers over a grid of patches: pictures keep their sizes, and are packed one after the other.

Rotary positions, attention inside each frame, and a merger that makes one token of a block of
patches. The families differ in names and settings: each fills in a `GridTower`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.encode.grid_layers import GridLayers, PartNames, grid_shapes
from vcache_cli.encode.grid_settings import grid_settings, grid_vision_config
from vcache_cli.encode.pictures import PIXELS, pixels_error
from vcache_cli.encode.planning import find_prefix, plan_tensors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    import numpy as np
    from numpy.typing import NDArray

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.encode.grids import Grid
    from vcache_cli.encode.ops import Array, Ops
    from vcache_cli.protocols import TowerPlan

__all__ = ["GridTower"]

_GRID: Final = "image_grid_thw"
_OF_CLIPS: Final = {_GRID: "video_grid_thw", PIXELS: "pixel_values_videos"}
"""What the servers' processors call them where the item is a clip."""
_LANDMARK: Final = "patch_embed.proj.weight"


def _unchanged(settings: dict[str, Any]) -> dict[str, Any]:
    return settings


@dataclass(frozen=True, slots=True)
class GridTower:
    """`features` are what the language model takes, a token for each block of patches.

    Where the family has DeepStack, `deepstack_0..n` are what its first layers take beside them.
    """

    name: str
    """The `model_type`; its mixture-of-experts sister has the same tower."""
    defaults: Mapping[str, Any]
    """What the family's configuration fills in."""
    parts: PartNames
    """What the family calls its parts."""
    resolve: Callable[[dict[str, Any]], dict[str, Any]] = _unchanged
    """From the family's names of settings to those of the third generation."""
    revision: int = 1
    outputs: tuple[str, ...] = ("projected",)

    def plan(self, checkpoint: Checkpoint, output: str = "projected") -> TowerPlan:
        """What to read.

        Raises:
            ModelError: no vision part, a missing or misshapen tensor, an unknown setting.
        """
        config = grid_vision_config(checkpoint, self.name)
        settings = grid_settings(checkpoint, config, self.defaults, resolve=self.resolve)
        shapes = grid_shapes(settings, self.parts)
        prefix = find_prefix(checkpoint, _LANDMARK, shapes)
        return plan_tensors(checkpoint, prefix, shapes, settings)

    def pixel_shape(self, settings: Mapping[str, Any]) -> None:
        """None: any grid."""

    def feature_shapes(
        self, settings: Mapping[str, Any], num_tokens: int
    ) -> dict[str, tuple[int, ...]]:
        """All of them are as wide as the language model."""
        names = ["features"]
        names += [
            f"deepstack_{i}" for i in range(len(settings.get("deepstack_visual_indexes", ())))
        ]
        return dict.fromkeys(names, (num_tokens, settings["out_hidden_size"]))

    def cost(self, settings: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> int:
        """Patches.

        Raises:
            EncodeError: no grid, or pixels that do not fill it.
        """
        frames, height, width = _grid(tensors)
        merge, num_patches = settings["spatial_merge_size"], frames * height * width
        if min(frames, height, width) < 1 or height % merge or width % merge:
            raise pixels_error(
                f"of whole blocks of {merge} x {merge} patches in (frames, rows, columns)",
                _named(tensors, _GRID),
                name=f"{_GRID} {[frames, height, width]}",
            )
        depth, side = settings["temporal_patch_size"], settings["patch_size"]
        expected = num_patches, settings["in_channels"] * depth * side * side
        pixels = _named(tensors, PIXELS)
        if pixels is None or pixels.shape != expected:
            raise pixels_error(str([*expected]), pixels)
        return num_patches

    def forward(
        self,
        ops: Ops,
        weights: Mapping[str, Array],
        settings: Mapping[str, Any],
        batch: Sequence[Mapping[str, NDArray[Any]]],
    ) -> dict[str, list[NDArray[np.float32]]]:
        """`features` and `deepstack_0..n` of each item, (num_tokens, out_hidden_size)."""
        grids = [_grid(item) for item in batch]
        layers = GridLayers(ops, weights, settings, self.parts, grids)
        outputs = layers.run(ops.pack([_patches(item) for item in batch]))
        block = settings["spatial_merge_size"] ** 2
        counts = [frames * height * width // block for frames, height, width in grids]
        return {name: ops.split(value, counts) for name, value in outputs.items()}


def _grid(tensors: Mapping[str, NDArray[Any]]) -> Grid:
    grid = _named(tensors, _GRID)
    if grid is None or grid.shape != (3,):
        raise pixels_error("[3]", grid, name=_GRID)
    frames, height, width = (int(count) for count in grid)
    return frames, height, width


def _patches(tensors: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    return tensors[PIXELS] if PIXELS in tensors else tensors[_OF_CLIPS[PIXELS]]


def _named(tensors: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any] | None:
    """What a picture or a clip has under `name`; None where it has none."""
    found = tensors.get(name)
    return tensors.get(_OF_CLIPS[name]) if found is None else found
