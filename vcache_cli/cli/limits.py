"""The settings that bound a store, as a document shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vcache_cli.config import Settings
    from vcache_cli.store.stats import Limit

__all__ = ["limits_of"]


def limits_of(settings: Settings) -> dict[str, Limit]:
    """``max_size`` and ``min_free``, each with its origin."""
    from vcache_cli.store.stats import Limit

    return {
        name: Limit(getattr(settings, name), settings.origins[name])
        for name in ("max_size", "min_free")
    }
