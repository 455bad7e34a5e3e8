"""Targets: what each consumer of a store looks up, where, and in which form."""

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
