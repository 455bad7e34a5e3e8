"""Pick the backend that suits this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vcache_cli.protocols import Backend

__all__ = ["choose_backend"]


def choose_backend(name: str | None, available: Sequence[Backend]) -> Backend:
    """The backend called `name`; with None the one that suits this machine best.

    Args:
        name: as the user gave it, or None.
        available: the installed backends, usable or not.

    Raises:
        ModelError: no such backend, or none that can be used here, each with its reason.
    """
    if name is not None:
        return _named(name, available)
    reasons = {backend.name: backend.unavailable() for backend in available}
    usable = [backend for backend in available if reasons[backend.name] is None]
    if not usable:
        told = "; ".join(f"`{each}`: {reason}" for each, reason in reasons.items())
        raise ModelError(f"expected a backend that runs here, found none: {told or 'none known'}")
    return max(usable, key=lambda backend: backend.preference())


def _named(name: str, available: Sequence[Backend]) -> Backend:
    for backend in available:
        if backend.name == name:
            reason = backend.unavailable()
            if reason is not None:
                raise ModelError(
                    f"backend `{name}` cannot be used here: {reason}",
                    hint="leave `--backend` away to take what runs here",
                )
            return backend
    known = ", ".join(backend.name for backend in available) or "none"
    raise ModelError(f"expected a backend among {known}, got `{name}`")
