"""Run every bench beside this file and write RESULTS.md. Takes minutes: `make bench`.

Arguments are parts of names: `python tests/bench/run.py get put` runs only those.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "RESULTS.md"
PEERS = {
    "_torch": ".venv-parity-torch",
    "_mlx_vlm": ".venv-parity",
    "_adapter": ".venv-parity",
    "_pixels": ".venv-parity",
    "_ray": ".venv-cluster",
}
"""Endings of names, to environments that `make parity-torch`, `make parity` and `make cluster`
make."""
PACKAGES = ("vcache-cli", "numpy", "pillow", "safetensors", "xxhash", "mlx")


def interpreter(stem: str) -> str:
    """A bench against a heavy peer runs where that is installed, and skips where it is not."""
    for ending, folder in PEERS.items():
        python = ROOT / folder / "bin/python"
        if stem.endswith(ending) and python.exists():
            return str(python)
    return sys.executable


def measure(stem: str) -> list[dict[str, Any]]:
    """The lines of one bench; it prints them as they come."""
    done = subprocess.run(
        [interpreter(stem), "-m", f"tests.bench.{stem}"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(done.stdout, end="", flush=True)
    if done.returncode:
        raise SystemExit(f"{stem} failed with {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def installed(name: str) -> str:
    """Name and version of a package."""
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} not installed"


def processor() -> str:
    """The processor's model, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def table(lines: list[dict[str, Any]]) -> str:
    """The page."""
    rows = [
        f"| {line['name']} | {line['ours']} | {line['peer']} | {line['unit']} "
        f"| **{line['ratio']}** | {line['n']} |"
        for line in lines
    ]
    return "\n".join(
        [
            "# Measured side by side",
            "",
            "Written by `make bench`. Each line is one run of A B A B in one process; figures move",
            "from machine to machine, the ratio less. `n` is the number of rounds.",
            "",
            (
                f"{platform.system()} {platform.machine()}, {processor()}, {os.cpu_count()} CPUs, "
                f"Python {platform.python_version()}, {datetime.now(UTC):%Y-%m-%d}"
            ),
            "",
            ", ".join(map(installed, PACKAGES)),
            "",
            "| work / peer | ours | peer | unit | ratio | n |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def main() -> None:
    """All benches, or those whose names hold one of the arguments."""
    stems = sorted(path.stem for path in HERE.glob("bench_*.py"))
    wanted = [stem for stem in stems if not sys.argv[1:] or any(p in stem for p in sys.argv[1:])]
    lines = [line for stem in wanted for line in measure(stem)]
    if wanted == stems:  # a page of some would look like a page of all
        RESULTS.write_text(table(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
