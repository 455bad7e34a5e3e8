"""kill -9 at any moment: no torn entry, none lost that was reported, the next writer goes on."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.crash.writer_loop import SHOWN_TOKENS
from tests.store.care import entry, make_store
from vcache_cli.store import DiskStore, OsFiles, StoreRoot, read_file

ROOT = Path(__file__).resolve().parents[2]
KILLS, TOGETHER = 20, 5


def start(root: StoreRoot) -> subprocess.Popen[str]:
    """A process that writes, and has begun to."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.writer_loop", str(root.path)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def killed_after(process: subprocess.Popen[str], seconds: float) -> list[str]:
    """Kill it; what it had reported as durable."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    text, _ = process.communicate()
    timer.join()
    return [line for line in text.split("\n") if len(line) == 64]


def torn(root: StoreRoot) -> list[str]:
    """Files in the place of entries that are not what their key says."""
    wanted = {made.key: made for made in (entry(n, tokens=SHOWN_TOKENS) for n in range(100))}
    bad = []
    for path in root.path.glob("??/*"):
        relative = path.relative_to(root.path).as_posix()
        found = read_file(OsFiles(), str(path), relative, root.layout)
        if found.tensors["features"].data != wanted[found.key].tensors["features"].data:
            bad.append(relative)
    return bad


def test_a_killed_writer_tears_nothing_and_loses_nothing(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store")
    chance = random.Random(7)
    reported: set[str] = set()
    for _ in range(KILLS // TOGETHER):
        running = [start(root) for _ in range(TOGETHER)]
        for process in running:
            reported.update(killed_after(process, chance.uniform(0.0, 0.08)))
        assert torn(root) == []
    store = DiskStore(root)
    assert reported
    assert [key for key in reported if store.get(key) is None] == []
    assert not store.findings


def test_what_a_killed_writer_left_is_swept_later(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store")
    killed_after(start(root), 0.02)
    folder = root.path / ".vcache/tmp"
    (folder / "left").write_bytes(b"half")
    for path in folder.iterdir():
        os.utime(path, (time.time() - 7200,) * 2)
    with DiskStore(root, mode="w") as store:
        store.put(entry(1, tokens=SHOWN_TOKENS))
    assert os.listdir(folder) == []
