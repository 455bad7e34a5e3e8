"""Targets: what each consumer of a store looks up, where, and in which form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.late_names import late_name as _late_name

if TYPE_CHECKING:
    from vcache_cli.targets.mlx_vlm import MlxVlmTarget
    from vcache_cli.targets.mlx_vlm_layout import MlxVlmLayout, mlx_vlm_key
    from vcache_cli.targets.native import NativeLayout, NativeTarget, native_key
    from vcache_cli.targets.omlx import OmlxTarget
    from vcache_cli.targets.omlx_layout import OmlxLayout
    from vcache_cli.targets.omlx_names import image_hash, omlx_grid, omlx_key, omlx_tensor_names
    from vcache_cli.targets.vllm_ec import VllmEcLayout, VllmEcTarget

__all__ = [
    "MlxVlmLayout",
    "MlxVlmTarget",
    "NativeLayout",
    "NativeTarget",
    "OmlxLayout",
    "OmlxTarget",
    "VllmEcLayout",
    "VllmEcTarget",
    "image_hash",
    "mlx_vlm_key",
    "native_key",
    "omlx_grid",
    "omlx_key",
    "omlx_tensor_names",
]

_HOMES = {
    "MlxVlmLayout": "mlx_vlm_layout",
    "MlxVlmTarget": "mlx_vlm",
    "NativeLayout": "native",
    "NativeTarget": "native",
    "OmlxLayout": "omlx_layout",
    "OmlxTarget": "omlx",
    "VllmEcLayout": "vllm_ec",
    "VllmEcTarget": "vllm_ec",
    "image_hash": "omlx_names",
    "mlx_vlm_key": "mlx_vlm_layout",
    "native_key": "native",
    "omlx_grid": "omlx_names",
    "omlx_key": "omlx_names",
    "omlx_tensor_names": "omlx_names",
}


def __getattr__(name: str) -> object:
    """Load a name from its module at first use: a run has one target."""
    return _late_name(__name__, _HOMES, name)
