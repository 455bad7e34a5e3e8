"""Kills the real command at each of its system calls, SQLite's among them, by strace (Linux)."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.crash.judge import judge, judge_rerun, reported
from tests.crash.matrix import Row
from tests.crash.scenes import fresh

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Final

    from tests.crash.scenes import Scene

__all__ = ["CALLS", "by_strace", "count_calls", "judged", "killed_at", "missing"]

CALLS: Final = (
    *("write", "pwrite64", "writev", "ftruncate", "fallocate", "fchmod", "chmod", "fchown"),
    *("fsync", "fdatasync", "rename", "renameat", "renameat2", "link", "linkat"),
    *("unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "utimensat", "symlink"),
)
"""What changes files. An `open` that makes one is followed by one of these, on the same file."""
_COMMAND: Final = (sys.executable, "-m", "vcache_cli")
_LINE: Final = re.compile(r"(\d+) +(?:<\.\.\. )?(\w+)\(")
_MOST_SECONDS: Final = 600


def missing() -> str:
    """Why strace cannot be used here; empty where it can."""
    if sys.platform != "linux":
        return "strace is of Linux; the shim does the same everywhere"
    if shutil.which("strace") is None:
        return "strace is not installed; the shim does the same, without SQLite's calls"
    tried = subprocess.run(
        ["strace", "-e", "trace=none", sys.executable, "-c", ""],  # noqa: S607  as users have it
        capture_output=True,
        check=False,
    )
    return "" if tried.returncode == 0 else "strace may not trace here"


def count_calls(scene: Scene, place: Path) -> dict[str, int]:
    """The most calls of each name that a thread of a whole run makes: strace counts by thread."""
    store, log = fresh(scene, place / "store"), place / "log"
    place.mkdir(parents=True, exist_ok=True)
    traced = f"trace={','.join(f'?{name}' for name in CALLS)}"
    code = _run(scene, store, "-e", traced, log=str(log))
    if code:
        raise AssertionError(f"{scene.name}: {code}")
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for line in log.read_text(errors="replace").split("\n"):
        if (match := _LINE.match(line)) and "resumed" not in line:
            counts[match[2]][match[1]] += 1
    return {name: max(threads.values()) for name, threads in counts.items()}


def killed_at(scene: Scene, place: Path, name: str, number: int) -> Path | None:
    """Kill it as a thread enters its `number`-th call of that name; the store that it left.

    None where no thread made so many this time.
    """
    store = fresh(scene, place / f"{scene.name}-{name}-{number}" / "new" / "store")
    act = f"inject={name}:signal=SIGKILL:when={number}"
    return store if _run(scene, store, "-e", f"trace={name}", "-e", act) else None


def judged(scene: Scene, store: Path) -> Row:
    """What is wrong of a store that was left, which is cleared away."""
    row = Row(scene.name)
    found = judge(scene, store, reported(store))
    found.add(judge_rerun(scene, store))
    row.add(store.parents[1].name, found)
    shutil.rmtree(store.parents[1])
    return row


def by_strace(scene: Scene, folder: Path, *, step: int = 1, together: int = 2) -> Row:
    """Kill it at every `step`-th system call of every name."""
    row, points = Row(scene.name), []
    for name, most in sorted(count_calls(scene, folder / "count").items()):
        points += [(name, number) for number in range(1, most + 1)]
    with ThreadPoolExecutor(together) as pool:
        for store in pool.map(lambda each: killed_at(scene, folder, *each), points[::step]):
            if store is not None:
                one = judged(scene, store)
                row.points += one.points
                row.wrong.add(one.wrong)
    return row


def _run(scene: Scene, store: Path, *options: str, log: str = "/dev/null") -> int:
    words = ["strace", "-f", "-qq", "-o", log, *options]  # with --seccomp-bpf none is killed
    done = subprocess.run(
        [*words, *_COMMAND, *scene.words(store)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_MOST_SECONDS,
        check=False,
    )
    return done.returncode
