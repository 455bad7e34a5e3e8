"""Drop-ins for caches of servers, over a store. Importing this package loads no server."""

from __future__ import annotations

__all__: list[str] = []
"""Each drop-in is a module of its own, named as the server."""
