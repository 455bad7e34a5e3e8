"""Two that warm, one that prunes, one that verifies and three that read one store: `make soak`.

Prints one JSON line; exit status 1 where a value was wrong, an entry lost, a command stuck or
ended badly, or a second prune was not refused.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tests.soak.ground import Ground, lay_ground
from tests.soak.roles import ROLES

__all__ = ["CAST", "faults", "soak_in_threads"]

ROOT: Final = Path(__file__).resolve().parents[2]
CAST: Final = (
    *(("warmer", 0), ("warmer", 1), ("pruner", 0), ("verifier", 0)),
    *(("reader", 0), ("reader", 1), ("reader", 2)),
)
FAULTS: Final = ("wrong", "lost", "stuck", "bad_exits", "findings", "died")
"""Counts that have to be 0."""
PATIENCE_SECONDS: Final = 300.0
"""How long after the end a role may take, or it counts as stuck."""

Results = dict[str, dict[str, float]]


def faults(results: Results) -> dict[str, float]:
    """Each kind of fault, summed over all roles."""
    found = {name: sum(each.get(name, 0) for each in results.values()) for name in FAULTS}
    pruned = results.get("pruner 0", {})
    found["second_not_refused"] = pruned.get("second_tried", 0) - pruned.get("second_refused", 0)
    return found


def soak_in_threads(ground: Ground) -> Results:
    """All roles in this process, by the library alone: a soak of seconds."""
    results: Results = {}

    def play(role: str, number: int) -> None:
        results[f"{role} {number}"] = {"died": 1}
        results[f"{role} {number}"] = ROLES[role](ground, number)

    threads = [threading.Thread(target=play, args=part) for part in CAST]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    return results


def _soak(ground: Ground) -> Results:
    """Each role in a process of its own."""
    words = (ground.folder, ground.model, ground.ends_at, ground.seed)
    children = {
        f"{role} {number}": subprocess.Popen(
            [sys.executable, "-m", "tests.soak.run", "--role", role, str(number), *map(str, words)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for role, number in CAST
    }
    results: Results = {}
    for name, child in children.items():
        try:
            out, _ = child.communicate(
                timeout=max(1.0, ground.ends_at - time.time()) + PATIENCE_SECONDS
            )
            results[name] = {"died": 1} if child.returncode else json.loads(out)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            results[name] = {"stuck": 1}
    return results


def _play(role: str, number: int, ground: Ground) -> dict[str, Any]:
    """What a role counted, and the most memory that it and the largest of its commands took."""
    counts = ROLES[role](ground, number)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    scale = 1 if sys.platform == "darwin" else 1024
    own = _peak_bytes() or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
    return {
        **counts,
        "peak_mib": round(own / 2**20, 1),
        "peak_mib_commands": round(peak * scale / 2**20, 1),
    }


def _peak_bytes() -> int:
    """Of this process since it began as such; 0 where the system does not tell.

    `getrusage` counts what it had in common with its parent.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    found = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return 1024 * int(found[0]) if found else 0


def _lasting(ground: Ground, minutes: float) -> Ground:
    return replace(ground, ends_at=time.time() + 60 * minutes)


def main() -> int:
    """One soak, or one role of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--pictures", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--role", nargs=6, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role:
        role, number, folder, model, ends_at, seed = arguments.role
        ground = Ground(Path(folder), Path(model), float(ends_at), int(seed))
        sys.stdout.write(json.dumps(_play(role, int(number), ground)))
        return 0
    with tempfile.TemporaryDirectory(prefix="vcache-soak-") as folder:
        ground = Ground(Path(folder), ROOT / "samples/tiny-siglip", 0.0, arguments.seed)
        lay_ground(ground, pictures=arguments.pictures)
        results = _soak(_lasting(ground, arguments.minutes))
        trouble = ground.events("trouble")
        told = trouble.read_text(encoding="ascii") if trouble.exists() else ""
    found = faults(results)
    gets = sum(each.get("gets", 0) for each in results.values())
    line = {"minutes": arguments.minutes, "gets": gets, "faults": found, "roles": results}
    sys.stdout.write(json.dumps(line) + "\n" + told[:4000])
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
