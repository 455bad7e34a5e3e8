"""Put nearly right files before our reader, `safetensors` and MLX: `make fuzz`.

Prints one JSON line; exit status 1 where a file was taken that another reader refuses or reads
differently, or where ours raised what it should not. Such files are kept in the folder named.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.campaign import Campaign


def main() -> int:
    """One campaign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--folder", help="where files are kept; a temporary folder")
    arguments = parser.parse_args()
    folder = Path(arguments.folder or tempfile.mkdtemp(prefix="vcache-fuzz-"))
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    tally = Campaign(arguments.seed, folder).run(seconds=60 * arguments.minutes)
    line = {
        "seed": arguments.seed,
        "minutes": round((time.monotonic() - begun) / 60, 2),
        "cases": tally.cases,
        "accepted": tally.accepted,
        "asked_mlx": tally.asked_mlx,
        "whole_entries": tally.entries,
        "gets": tally.gets,
        "stricter": dict(tally.stricter),
        "slowest_ms": round(1000 * tally.slowest_seconds, 1),
        "dangerous": len(tally.dangerous),
        "crashes": len(tally.crashes),
        "folder": str(folder),
    }
    sys.stdout.write(json.dumps(line) + "\n")
    for told in (*tally.dangerous[:20], *tally.crashes[:20]):
        sys.stdout.write(told + "\n")
    return 0 if tally.is_clean else 1


if __name__ == "__main__":
    raise SystemExit(main())
