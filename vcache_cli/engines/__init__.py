"""Where the work of a run happens: threads of this process, or processes of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.late_names import late_name as _late_name

if TYPE_CHECKING:
    from vcache_cli.engines.local import ThreadEngine
    from vcache_cli.engines.processes import ProcessEngine
    from vcache_cli.engines.worker import Limits

__all__ = ["Limits", "ProcessEngine", "ThreadEngine"]

_HOMES = {"Limits": "worker", "ProcessEngine": "processes", "ThreadEngine": "local"}


def __getattr__(name: str) -> object:
    """Load a name from its module at first use: a run that decodes nothing needs no workers."""
    return _late_name(__name__, _HOMES, name)
