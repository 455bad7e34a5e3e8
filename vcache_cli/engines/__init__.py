"""Where the work of a run happens: threads of this process, or processes of their own."""

from __future__ import annotations

from vcache_cli.engines.local import ThreadEngine
from vcache_cli.engines.processes import ProcessEngine
from vcache_cli.engines.worker import Limits

__all__ = ["Limits", "ProcessEngine", "ThreadEngine"]
