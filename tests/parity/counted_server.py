"""`vcache`, in a process whose vision towers of mlx-vlm write down each of their calls.

Run as ``python -m tests.parity.counted_server FILE ARGS...``: FILE grows by one byte a call.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

TOWERS = (
    "qwen2_5_vl.vision",
    "qwen3_vl.vision",  # qwen3_5's is made of it
)


def count_calls(module: str, file: Path) -> None:
    """Let each call of the module's tower add a byte to `file`."""
    tower = import_module(f"mlx_vlm.models.{module}").VisionModel
    forward = tower.__call__

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  theirs
        with file.open("ab") as log:
            log.write(b".")
        return forward(self, *args, **kwargs)

    tower.__call__ = counted


def main(file: str, *args: str) -> int:
    """Run the command line `args`; its exit code."""
    for module in TOWERS:
        count_calls(module, Path(file))
    from vcache_cli.cli.app import run

    return run(args)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
