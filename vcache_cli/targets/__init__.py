"""Targets: what each consumer of a store looks up, where, and in which form."""

from vcache_cli.targets.native import NativeLayout, NativeTarget, native_key
from vcache_cli.targets.omlx import OmlxLayout, OmlxTarget
from vcache_cli.targets.omlx_names import omlx_grid, omlx_key, omlx_tensor_names
from vcache_cli.targets.vllm_ec import VllmEcLayout, VllmEcTarget

__all__ = [
    "NativeLayout",
    "NativeTarget",
    "OmlxLayout",
    "OmlxTarget",
    "VllmEcLayout",
    "VllmEcTarget",
    "native_key",
    "omlx_grid",
    "omlx_key",
    "omlx_tensor_names",
]
