"""Qwen2.5-VL: a grid of patches, as large as the picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.preprocess.patches import PatchFamily

if TYPE_CHECKING:
    from typing import Final

__all__ = ["FAMILY"]

FAMILY: Final = PatchFamily(
    name="qwen2_5_vl", revision=1, model_types=("qwen2_5_vl",), patch_size=14
)
"""Its defaults are those of the servers' image processors."""
