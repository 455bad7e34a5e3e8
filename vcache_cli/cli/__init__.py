"""The command line: parses, calls, renders. Decides nothing."""

from __future__ import annotations

__all__: list[str] = []
