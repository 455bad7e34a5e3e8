"""Qwen2-VL's vision tower: layer norms, a plain MLP, quick GELU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.encode.grid_layers import PartNames
from vcache_cli.encode.grid_tower import GridTower

if TYPE_CHECKING:
    from typing import Final

__all__ = ["TOWER"]


def _renamed(settings: dict[str, Any]) -> dict[str, Any]:
    """Here `hidden_size` is what comes out, and `embed_dim` is the width of the tower."""
    rest = {name: value for name, value in settings.items() if name != "embed_dim"}
    ratio = rest.pop("mlp_ratio")
    return rest | {
        "hidden_size": settings["embed_dim"],
        "intermediate_size": int(settings["embed_dim"] * ratio),
        "out_hidden_size": settings["hidden_size"],
    }


TOWER: Final = GridTower(
    name="qwen2_vl",
    defaults={
        "depth": 32,
        "embed_dim": 1280,
        "hidden_act": "quick_gelu",
        "hidden_size": 3584,
        "in_channels": 3,
        "mlp_ratio": 4,
        "num_heads": 16,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    },
    parts=PartNames(mlp=("fc1", "fc2"), merger=("ln_q", "mlp.0", "mlp.2")),
    resolve=_renamed,
)
