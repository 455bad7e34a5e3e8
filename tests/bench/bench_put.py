"""P8: put 1 MiB entries with full durability, against plain threads that do the same by hand."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.bench.bench_get import make_entry
from tests.bench.measure import report
from vcache_cli.entry import Entry
from vcache_cli.store import DiskStore, StoreRoot, create_meta
from vcache_cli.store.writer import Packed, pack_entry
from vcache_cli.targets import NativeLayout

COUNT = int(os.environ.get("VCACHE_BENCH_PUTS", "1000"))
ROUNDS = int(os.environ.get("VCACHE_BENCH_ROUNDS", "10"))
THREADS = 8
LAYOUT = NativeLayout()


def ours(folder: Path, entries: list[Entry]) -> None:
    """Through the pool, checksum and read-back included."""
    meta = create_meta(folder, target="native")
    with (
        DiskStore(StoreRoot(folder, LAYOUT, meta), mode="w") as store,
        store.writer(threads=THREADS) as writer,
    ):
        futures = [writer.submit(entry) for entry in entries]
    for future in futures:
        future.result()


def peer(folder: Path, files: list[Packed]) -> None:
    """The same bytes: write, fsync, rename, fsync of the directory, in as many threads."""
    for shard in LAYOUT.shards:
        (folder / shard).mkdir(parents=True)
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(partial(put_plain, folder), files))


def put_plain(folder: Path, packed: Packed) -> None:
    """One file."""
    final = folder / packed.relative
    temp = final.with_suffix(".tmp")
    with temp.open("wb", buffering=0) as file:
        for part in packed.parts:
            file.write(part)
        os.fsync(file.fileno())
    temp.replace(final)
    fd = os.open(final.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def timed(work: Callable[[Path], None], base: Path) -> float:
    """Seconds of one round in a new folder; what rounds before left is on the disk."""
    folder = base / "round"
    os.sync()
    begun = time.perf_counter()
    work(folder)
    seconds = time.perf_counter() - begun
    shutil.rmtree(folder)
    return seconds


def main() -> None:
    """Interleaved rounds after one that does not count; medians and minima."""
    entries = [make_entry(number, 1) for number in range(COUNT)]
    files = [pack_entry(entry, LAYOUT) for entry in entries]
    a: list[float] = []
    b: list[float] = []
    # Under the working directory: a system's folder for temps is often no disk.
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        for _ in range(1 + ROUNDS):
            a.append(timed(lambda path: ours(path, entries), Path(folder)))
            b.append(timed(lambda path: peer(path, files), Path(folder)))
    ours_s, peer_s = a[1:], b[1:]
    label = f"P8 put {COUNT} x 1 MiB / {THREADS} plain threads"
    report(f"{label}, median", *map(statistics.median, (ours_s, peer_s)), unit="s", rounds=ROUNDS)
    report(f"{label}, minimum", min(ours_s), min(peer_s), unit="s", rounds=ROUNDS)


if __name__ == "__main__":
    main()
