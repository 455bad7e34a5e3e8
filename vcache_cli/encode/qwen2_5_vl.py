"""Qwen2.5-VL's vision tower: RMS norms, a gated MLP, attention in windows in most layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.encode.grid_layers import PartNames
from vcache_cli.encode.grid_tower import GridTower

if TYPE_CHECKING:
    from typing import Final

__all__ = ["TOWER"]

TOWER: Final = GridTower(
    name="qwen2_5_vl",
    defaults={
        "depth": 32,
        "fullatt_block_indexes": [7, 15, 23, 31],
        "hidden_act": "silu",
        "hidden_size": 3584,
        "in_channels": 3,
        "intermediate_size": 3420,
        "num_heads": 16,
        "out_hidden_size": 3584,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "window_size": 112,
    },
    parts=PartNames(
        mlp=("gate_proj", "up_proj", "down_proj"),
        merger=("ln_q", "mlp.0", "mlp.2"),
        is_rms=True,
    ),
)
