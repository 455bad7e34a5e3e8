"""The server of mlx-vlm itself, which writes down each call of its tower and each lookup.

Run as ``python -m tests.parity.counted_mlx_vlm CALLS LOOKUPS ARGS...``: CALLS grows by one byte a
call, LOOKUPS by ``h`` for a hit of its cache in memory and ``m`` for a miss.
"""

from __future__ import annotations

import runpy
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.parity.counted_server import TOWERS, count_calls


def count_lookups(file: Path) -> None:
    """Let each lookup in a cache of mlx-vlm add a letter to `file`."""
    cache = import_module("mlx_vlm.vision_cache").VisionFeatureCache
    look = cache.get

    def counted(self: Any, key: Any) -> Any:  # noqa: ANN401  theirs
        found = look(self, key)
        with file.open("ab") as log:
            log.write(b"m" if found is None else b"h")
        return found

    cache.get = counted


def main(calls: str, lookups: str, *args: str) -> None:
    """Serve until the end."""
    for module in TOWERS:
        count_calls(module, Path(calls))
    count_lookups(Path(lookups))
    sys.argv = ["mlx_vlm.server", *args]
    runpy.run_module("mlx_vlm.server", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
