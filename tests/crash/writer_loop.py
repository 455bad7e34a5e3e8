"""Puts entries until it is killed; names each key on stdout once it is durable."""

from __future__ import annotations

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
    """Write entries 0 to 99 again and again."""
    path = Path(sys.argv[1])
    root = StoreRoot(path, NativeLayout(), read_meta(path))
    with DiskStore(root, mode="w") as store, store.writer(threads=4) as writer:
        print("ready", flush=True)  # noqa: T201  the parent reads it
        while True:
            for number in range(100):
                made = entry(number, tokens=SHOWN_TOKENS)
                writer.submit(made).add_done_callback(partial(tell, made.key))


def tell(key: str, done: Future[int]) -> None:
    """One line in one write, so that a kill does not cut it unnoticed."""
    done.result()
    sys.stdout.write(key + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
