"""What a run did, as a value, and the documents made of it."""

from __future__ import annotations

__all__: list[str] = []
