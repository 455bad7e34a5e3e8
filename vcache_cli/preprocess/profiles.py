"""Profiles: whose rules are followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.profile import Profile

if TYPE_CHECKING:
    from typing import Final

__all__ = ["MLX_VLM_0_7", "OMLX", "TRANSFORMERS_PIL_5"]

TRANSFORMERS_PIL_5: Final = Profile(
    name="transformers-pil-5",
    revision=1,
    package="transformers",
    versions=("5.24",),
)
"""transformers 5: pictures through `load_image`, then its image processors of the PIL kind."""

MLX_VLM_0_7: Final = Profile(
    name="mlx-vlm-0.7",
    revision=1,
    package="mlx-vlm",
    versions=("0.7",),
    processors="mlx-vlm",
    clips="opencv",
)
"""mlx-vlm 0.7: its `load_image`, then its own image processors where it has some."""

OMLX: Final = Profile(
    name="omlx",
    revision=1,
    package="mlx-vlm",
    versions=("0.7",),
    processors="mlx-vlm",
    clips="opencv",
    max_side=2048,
)
"""oMLX: its own loader, which brings large pictures down first; then mlx-vlm's processors."""
