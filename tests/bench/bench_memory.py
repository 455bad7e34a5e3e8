"""P12: peak memory of a whole `warm` of a corpus, against that of one a tenth as large."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.measure import report

COUNT = int(os.environ.get("VCACHE_BENCH_PICTURES", "200"))
ROUNDS = int(os.environ.get("VCACHE_BENCH_ROUNDS", "3"))
SAMPLES = Path(__file__).resolve().parents[2] / "samples"
RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024


def draw(folder: Path) -> list[Path]:
    """Pictures of many formats and sizes, drawn by another process.

    This one must stay small: the kernel counts what a child shared with it before it became
    another program.
    """
    words = ["--corpus", str(folder), "--count", "40"]
    subprocess.run([sys.executable, str(SAMPLES / "make_samples.py"), *words], check=True)
    kept = {".jpg", ".jpeg", ".png", ".bmp"}
    return sorted(path for path in folder.rglob("*") if path.suffix in kept)


def make_pictures(folder: Path, drawn: list[Path], count: int) -> Path:
    """`folder` with `count` pictures, each of different content."""
    folder.mkdir()
    for number in range(count):
        picture = drawn[number % len(drawn)]
        data = picture.read_bytes() + number.to_bytes(4, "big")  # decoders stop before that
        (folder / f"{number:06d}{picture.suffix}").write_bytes(data)
    return folder


def peak_bytes(corpus: Path, store: Path) -> int:
    """Most memory that a `warm` of `corpus` held at once, by the kernel's account."""
    words = ["warm", str(corpus), "-m", str(SAMPLES / "tiny-siglip"), "-s", str(store), "--quiet"]
    with subprocess.Popen([sys.executable, "-m", "vcache_cli", *words]) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"warm ended with {process.returncode}")
    return usage.ru_maxrss * RSS_UNIT_BYTES


def main() -> None:
    """Interleaved rounds after one that does not count; medians."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        base = Path(name)
        drawn = draw(base / "drawn")
        small, large = (
            make_pictures(base / f"corpus-{count}", drawn, count) for count in (COUNT, 10 * COUNT)
        )
        peaks: tuple[list[int], list[int]] = [], []
        for number in range(1 + ROUNDS):
            for corpus, found in zip((large, small), peaks, strict=True):
                found.append(peak_bytes(corpus, base / f"store-{number}-{corpus.name}"))
    ours, peer = (statistics.median(found[1:]) for found in peaks)
    label = f"P12 peak memory of warm, {10 * COUNT} / {COUNT} pictures"
    report(label, ours, peer, unit="MiB", rounds=ROUNDS)


if __name__ == "__main__":
    main()
