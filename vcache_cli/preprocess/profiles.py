"""Profiles: whose rules are followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.profile import Profile

if TYPE_CHECKING:
    from typing import Final

__all__ = ["TRANSFORMERS_PIL_5"]

TRANSFORMERS_PIL_5: Final = Profile(
    name="transformers-pil-5",
    revision=1,
    package="transformers",
    versions=("5.24",),
)
"""transformers 5: pictures through `load_image`, then its image processors of the PIL kind."""
