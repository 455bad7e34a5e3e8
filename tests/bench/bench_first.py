"""P13: how long a new process takes to the first item of a large tree, against a second.

The tree is made of `VCACHE_BENCH_FILES` small pictures, 100,000 by default.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.bench_warm import MODEL, make_pictures
from tests.bench.measure import report

COUNT = int(os.environ.get("VCACHE_BENCH_FILES", "100000"))
ROUNDS = int(os.environ.get("VCACHE_BENCH_ROUNDS", "5"))
TARGET_SECONDS = 1.0


def seconds_to_first(corpus: Path, store: Path) -> float:
    """Until a warm of `corpus` says what became of its first item."""
    words = ["warm", str(corpus), "-m", str(MODEL), "-s", str(store), "--quiet", "--events", "-"]
    begun = time.perf_counter()
    command = [sys.executable, "-m", "vcache_cli", *words]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        if process.stderr is None:
            raise SystemExit("no pipe")
        line = process.stderr.readline()
        taken = time.perf_counter() - begun
        process.send_signal(signal.SIGINT)
        process.stderr.read()
    if '"status":"stored"' not in line.replace(" ", ""):
        raise SystemExit(f"not an item that was stored: {line}")
    return taken


def main() -> None:
    """One round that does not count, then the median."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        base = Path(name)
        corpus = base / "corpus"
        make_pictures(corpus, COUNT)
        taken = [seconds_to_first(corpus, base / f"store-{n}") for n in range(1 + ROUNDS)]
        label = f"P13 first of {COUNT} items done / target"
        report(label, statistics.median(taken[1:]), TARGET_SECONDS, unit="ms", rounds=ROUNDS)


if __name__ == "__main__":
    main()
