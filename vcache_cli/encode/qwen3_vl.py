"""Qwen3-VL's vision tower: learnt positions, and DeepStack tokens of several layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.encode.grid_layers import PartNames
from vcache_cli.encode.grid_tower import GridTower

if TYPE_CHECKING:
    from typing import Final

__all__ = ["TOWER"]

TOWER: Final = GridTower(
    name="qwen3_vl",
    defaults={
        "deepstack_visual_indexes": [8, 16, 24],
        "depth": 27,
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_size": 1152,
        "in_channels": 3,
        "intermediate_size": 4304,
        "num_heads": 16,
        "num_position_embeddings": 2304,
        "out_hidden_size": 3584,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    },
    parts=PartNames(
        mlp=("linear_fc1", "linear_fc2"),
        merger=("norm", "linear_fc1", "linear_fc2"),
        has_positions=True,
    ),
)
