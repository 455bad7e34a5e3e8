"""P9, P10, P11: a large store opened, summed up, and planned to be pruned.

`VCACHE_BENCH_ENTRIES` says how large: 100,000 by default; a million takes a minute to make.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tests.bench.measure import compare, report
from tests.store.care import entry, make_store
from vcache_cli import open_store
from vcache_cli.store.index import open_index
from vcache_cli.store.index_schema import index_path
from vcache_cli.store.meta import StoreRoot
from vcache_cli.store.writer import pack_entry

COUNT = int(os.environ.get("VCACHE_BENCH_ENTRIES", "100000"))
ROUNDS = int(os.environ.get("VCACHE_BENCH_ROUNDS", "5"))
ENTRY_BYTES = 100_000
DOOMED_SHARE = 10
"""One in so many is the plan's; only these have files, which are holes."""
NEVER_NS = 1_600_000_000 * 10**9
STATS_SECONDS, PLAN_SECONDS, PLAN_BYTES = (0.30, 0.40), 3.0, 200 * 2**20
MILLION = 1_000_000
RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
INSERT = "INSERT INTO entries VALUES (?, ?, 1, ?, ?, ?, ?, 1, ?, 1, 196, 1, NULL)"


def fill_with_files(root: StoreRoot, count: int) -> str:
    """`count` whole entries, written without care; the key of one."""
    for number in range(256):
        (root.path / f"{number:02x}").mkdir()
    key = ""
    for number in range(count):
        made = entry(number)
        packed = pack_entry(made, root.layout)
        (root.path / packed.relative).write_bytes(b"".join(packed.parts))
        key = made.key
    return key


def fill_index(root: StoreRoot, count: int) -> None:
    """An index of `count` entries, of which those used least lately have files."""
    open_index(root, mode="w").close()
    with closing(sqlite3.connect(index_path(root.path))) as index:
        index.execute("INSERT INTO labels VALUES (1, 'features', 'image', 'bench', NULL)")
        index.execute("INSERT INTO tensors VALUES (1, ?)", ('[["features","BF16",[196,768]]]',))
        index.executemany(INSERT, rows(root, count))
        for number, name in enumerate(["", *(f"{shard:02x}" for shard in range(256))]):
            facts = os.stat(root.path / name)
            times = (facts.st_mtime_ns, facts.st_mtime_ns, facts.st_ctime_ns)
            values = (number + 1, os.fsencode(name), *times, facts.st_ino)
            index.execute("INSERT INTO directories VALUES (?, ?, ?, ?, ?, ?)", values)
        index.commit()


def rows(root: StoreRoot, count: int) -> Iterator[tuple[object, ...]]:
    """Rows in the order of their keys, as the table lies; a file for one in ten."""
    random_keys = random.Random(1)
    per_shard = count // 256
    for shard in range(256):
        folder = root.path / f"{shard:02x}"
        folder.mkdir()
        keys = sorted(bytes([shard]) + random_keys.randbytes(31) for _ in range(per_shard))
        for number, key in enumerate(keys):
            used_ns, inode = NEVER_NS + 10**15 + number * 10**9, 0
            if number % DOOMED_SHARE == 0:
                used_ns = NEVER_NS + number * 10**9
                inode = make_hole(folder / f"{key.hex()}.safetensors", used_ns)
            size = ENTRY_BYTES
            yield shard + 2, key, size, size, used_ns, used_ns // 10**9, inode


def make_hole(path: Path, used_ns: int) -> int:
    """A file without blocks; its inode."""
    with path.open("wb") as file:
        file.truncate(ENTRY_BYTES)
        os.utime(file.fileno(), ns=(used_ns, used_ns))
        return os.fstat(file.fileno()).st_ino


def read_all_headers(path: Path) -> int:
    """What a server does that keeps no index: each file's header, at every start."""
    found = 0
    for folder, _, names in os.walk(path):
        for name in names:
            if name.endswith(".safetensors"):
                with open(os.path.join(folder, name), "rb") as file:
                    (size,) = struct.unpack("<Q", file.read(8))
                    found += len(json.loads(file.read(size))) > 0
    return found


def run(*words: str) -> tuple[float, int]:
    """Seconds and peak bytes of a whole process of ours."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "vcache_cli", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{words[0]} ended with {process.returncode}")
    return time.perf_counter() - begun, usage.ru_maxrss * RSS_UNIT_BYTES


def measure_open(folder: Path) -> None:
    """P9."""
    root = make_store(folder)
    count = min(COUNT, 100_000)
    key = fill_with_files(root, count)

    def get_one() -> None:
        if open_store(folder).get(key) is None:
            raise SystemExit("the entry is not there")

    get_one()
    label = f"P9 open {count} entries and get one / a header per file"
    compare(label, get_one, lambda: read_all_headers(folder), unit="ms", rounds=ROUNDS)


def measure_care(folder: Path) -> None:
    """P10 and P11: whole processes, against the figures that they are to keep."""
    root = make_store(folder)
    fill_index(root, COUNT)
    time.sleep(3)  # a directory that has just changed is read again
    target = STATS_SECONDS[COUNT >= MILLION]
    took = statistics.median(run("stats", str(folder), "--json")[0] for _ in range(ROUNDS))
    report(f"P10 stats of {COUNT} entries / target", took, target, unit="ms", rounds=ROUNDS)
    kept = COUNT * ENTRY_BYTES * (DOOMED_SHARE - 1) // DOOMED_SHARE
    words = ("prune", str(folder), "--max-size", str(kept), "--dry-run", "--json")
    runs = [run(*words) for _ in range(ROUNDS)]
    took, peak = (statistics.median(figures) for figures in zip(*runs, strict=True))
    label = f"P11 prune plan over {COUNT} entries"
    report(f"{label} / target", took, PLAN_SECONDS, unit="ms", rounds=ROUNDS)
    report(f"{label}, peak memory / target", peak, PLAN_BYTES, unit="MiB", rounds=ROUNDS)


def main() -> None:
    """Two stores: one of files, one of rows."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        measure_open(Path(name) / "files")
        measure_care(Path(name) / "rows")


if __name__ == "__main__":
    main()
