"""P6: a second `warm` over unchanged files, the whole process, against `git status` of them.

A line of wall time, and one of processor time, which says more where others use the machine.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from PIL import Image

from tests.bench.measure import compare, report

COUNT = int(os.environ.get("VCACHE_BENCH_FILES", "10000"))
ROUNDS = int(os.environ.get("VCACHE_BENCH_ROUNDS", "10"))
FILES_PER_FOLDER = 500
MODEL = Path(__file__).resolve().parents[2] / "samples/tiny-siglip"
HOUR_SECONDS = 3600


def make_pictures(folder: Path, count: int) -> None:
    """Small pictures of different content, an hour old, in folders."""
    folder.mkdir()
    Image.linear_gradient("L").resize((16, 16)).save(folder / "first.png")
    data = (folder / "first.png").read_bytes()
    (folder / "first.png").unlink()
    for number in range(count):
        path = folder / f"{number // FILES_PER_FOLDER:04d}" / f"{number:06d}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data + number.to_bytes(4, "big"))  # decoders stop before that
        then = path.stat().st_mtime - HOUR_SECONDS
        os.utime(path, (then, then))


def run(words: list[str], *, cwd: Path) -> None:
    """Run a command to its end."""
    subprocess.run(words, cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def cpu_seconds(work: Callable[[], None]) -> float:
    """Processor time of the processes that `work` starts and awaits."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """One warm, one commit, then rounds of both."""
    git = shutil.which("git")
    if git is None:
        raise SystemExit("git is the peer, and is not installed")
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        base = Path(name)
        corpus = base / "corpus"
        make_pictures(corpus, COUNT)
        warm = [sys.executable, "-m", "vcache_cli", "warm", str(corpus), "-m", str(MODEL)]
        ours = partial(run, [*warm, "-s", str(base / "store"), "--quiet"], cwd=base)
        as_author = [git, "-c", "user.name=bench", "-c", "user.email=bench@example.invalid"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "All"]):
            run([*as_author, *words], cwd=corpus)
        ours()
        peer = partial(run, [git, "status", "--porcelain"], cwd=corpus)
        label = f"P6 second warm of {COUNT} files / git status"
        compare(label, ours, peer, unit="ms", rounds=ROUNDS)
        spent = [(cpu_seconds(ours), cpu_seconds(peer)) for _ in range(ROUNDS)]
        medians = (statistics.median(figures) for figures in zip(*spent, strict=True))
        report(f"{label}, processor time", *medians, unit="ms", rounds=ROUNDS)


if __name__ == "__main__":
    main()
