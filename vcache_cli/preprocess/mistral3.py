"""Mistral 3: as Pixtral, but one token for a square of several patches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.preprocess.pixtral import PixtralFamily

if TYPE_CHECKING:
    from typing import Final

__all__ = ["FAMILY"]

FAMILY: Final = PixtralFamily(name="mistral3", revision=1, patch_from_config=True)
"""transformers takes the number from ``processor_config.json`` alone."""
