"""Drop-ins for caches of servers, over a store. Importing this package loads no server."""

from __future__ import annotations
