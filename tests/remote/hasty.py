"""The command in a process of its own that says what it put into a bucket at once, to be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

__all__ = ["start_hasty"]

_CODE = """
import sys
from vcache_cli.cli.app import run
from vcache_cli.remote import record
record.PART_SECONDS = 0.0
sys.exit(run(sys.argv[1:]))
"""


def start_hasty(
    words: Sequence[object], env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start it and leave it running."""
    return subprocess.Popen(
        [sys.executable, "-c", _CODE, *map(str, words)],
        env={**os.environ, **(env or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
