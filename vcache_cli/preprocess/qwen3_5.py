"""Qwen3.5: a grid of patches, as large as the picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.preprocess.patches import PatchFamily

if TYPE_CHECKING:
    from typing import Final

__all__ = ["FAMILY"]

FAMILY: Final = PatchFamily(
    name="qwen3_5", revision=1, model_types=("qwen3_5", "qwen3_5_moe"), patch_size=16
)
"""Its defaults are those of the servers' image processors."""
