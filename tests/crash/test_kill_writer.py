"""kill -9 at any moment: no torn entry, none lost that was reported, the next writer goes on."""

from __future__ import annotations

import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.writer_loop import SHOWN_TOKENS
from tests.patience import PATIENCE_SECONDS, until
from tests.store.care import entry, make_store
from vcache_cli.store import DiskStore, OsFiles, StoreRoot, read_file

ROOT = Path(__file__).resolve().parents[2]
KILLS, TOGETHER = 20, 5


@dataclass
class Writers:
    """Processes that write to one store."""

    process: subprocess.Popen[str]
    ready: queue.Queue[int] = field(default_factory=queue.Queue)
    reported: set[str] = field(default_factory=set)
    """Keys that were said to be durable."""

    def listen(self) -> None:
        """Until the last of them is gone."""
        for line in self.process.stdout or ():
            word, _, number = line.strip().partition(" ")
            if number:
                self.ready.put(int(number))
            else:
                self.reported.add(word)

    def start(self) -> int:
        """The number of one more, which has begun to write."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.ready.get(timeout=PATIENCE_SECONDS)


@contextmanager
def writers(root: StoreRoot) -> Iterator[Writers]:
    """All that was reported is known at the end."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.crash.writer_loop", str(root.path)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        made = Writers(process)
        listener = threading.Thread(target=made.listen)
        listener.start()
        try:
            yield made
        finally:
            assert process.stdin is not None
            process.stdin.close()
            listener.join(PATIENCE_SECONDS)


def kill(number: int, *, after_seconds: float) -> None:
    """Kill it, and wait until it is gone."""
    time.sleep(after_seconds)
    os.kill(number, signal.SIGKILL)
    until(lambda: not runs(number))


def runs(number: int) -> bool:
    """A process that is killed is none at once: nobody has to wait for it."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


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
    with writers(root) as begun:
        for _ in range(KILLS // TOGETHER):
            for number in [begun.start() for _ in range(TOGETHER)]:
                kill(number, after_seconds=chance.uniform(0.0, 0.08))
            assert torn(root) == []
        last = begun.start()
        until(lambda: begun.reported)
        kill(last, after_seconds=0.0)
    store = DiskStore(root)
    assert [key for key in begun.reported if store.get(key) is None] == []
    assert not store.findings


def test_what_a_killed_writer_left_is_swept_later(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store")
    with writers(root) as begun:
        kill(begun.start(), after_seconds=0.02)
    folder = root.path / ".vcache/tmp"
    (folder / "left").write_bytes(b"half")
    for path in folder.iterdir():
        os.utime(path, (time.time() - 7200,) * 2)
    with DiskStore(root, mode="w") as store:
        store.put(entry(1, tokens=SHOWN_TOKENS))
    assert os.listdir(folder) == []
