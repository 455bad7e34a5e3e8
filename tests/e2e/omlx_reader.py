"""A process that reads a `vision_features` as its server does, until its stdin is closed."""

from __future__ import annotations

import json
import select
import sys
from pathlib import Path

from tests.e2e.omlx_store import Server


def read_on(root: Path) -> dict[str, int]:
    """Get every image again and again; how often features came back, and how often none."""
    server = Server(root)
    known = list(server.index)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    counts = {"known": len(known), "hits": 0, "misses": 0, "rounds": 0}
    while not select.select([sys.stdin], [], [], 0)[0]:
        for name in known:
            counts["hits" if server.get(*name) else "misses"] += 1
        counts["rounds"] += 1
    counts["left"] = sum(server.get(*name) is not None for name in known)
    return counts


if __name__ == "__main__":
    sys.stdout.write(json.dumps(read_on(Path(sys.argv[1]))))
