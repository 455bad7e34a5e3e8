"""How many examples Hypothesis tries where each is more than arithmetic."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

__all__ = ["ON_DISK"]

ON_DISK: Final = settings(max_examples=max(10, settings().max_examples // 5))
"""For tests whose examples each write files, or make pictures: a fifth of the profile's."""
