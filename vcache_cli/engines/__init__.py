"""Where the work of a run happens: local threads today."""

from __future__ import annotations

from vcache_cli.engines.local import ThreadEngine

__all__ = ["ThreadEngine"]
