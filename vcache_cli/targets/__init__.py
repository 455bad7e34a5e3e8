"""Targets: what each consumer of a store looks up, where, and in which form."""

from vcache_cli.targets.native import NativeLayout, NativeTarget, native_key

__all__ = ["NativeLayout", "NativeTarget", "native_key"]
