"""Puts entries until it is killed; names each key on stdout once it is durable.

``python -m tests.crash.writer_loop STORE`` forks a writer for each line on stdin: each says
``ready`` and its process number first. It ends with its stdin, and is not waited for by them.
"""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from tests.store.care import entry
from vcache_cli.store import DiskStore, StoreRoot, read_meta
from vcache_cli.targets import NativeLayout

SHOWN_TOKENS = 2000
"""32 KB of tensors: several pages, so that a tear would show."""


def main() -> None:
    """Fork writers; imports take longer than a writer lives."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a writer that is killed is gone at once
    while sys.stdin.readline():
        if os.fork() == 0:
            write(Path(sys.argv[1]))


def write(path: Path) -> None:
    """Write entries 0 to 99 again and again."""
    root = StoreRoot(path, NativeLayout(), read_meta(path))
    with DiskStore(root, mode="w") as store, store.writer(threads=4) as writer:
        say(f"ready {os.getpid()}")
        while True:
            for number in range(100):
                made = entry(number, tokens=SHOWN_TOKENS)
                writer.submit(made).add_done_callback(partial(tell, made.key))


def tell(key: str, done: Future[int]) -> None:
    """Name what is durable."""
    done.result()
    say(key)


def say(line: str) -> None:
    """One line in one write, so that a kill does not cut it unnoticed."""
    os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    main()
