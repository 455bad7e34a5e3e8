"""SmolVLM: as Idefics 3, but for a default of mlx-vlm's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.preprocess.idefics3 import Idefics3Family

if TYPE_CHECKING:
    from typing import Final

__all__ = ["FAMILY"]

FAMILY: Final = Idefics3Family(name="smolvlm", revision=1, mlx_patch_side=14)
