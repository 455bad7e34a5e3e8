"""Verify every byte of a store, against `cat` of the same files to nowhere; hot and cold.

Hot: the files lie in the page cache, so this is what the processor costs. Cold: each round begins
by asking the kernel to forget them, so this is whether the disk is kept busy.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.bench.bench_get import make_entry
from tests.bench.measure import compare
from vcache_cli.store import DiskStore, StoreRoot, create_meta
from vcache_cli.store.verify import verify_store
from vcache_cli.targets import NativeLayout

ENTRIES, SIZE_MIB = 256, 1
NOWHERE = open(os.devnull, "wb")  # noqa: SIM115  open as long as the process


def verified(root: StoreRoot) -> object:
    """A verify as the command runs it; everything is sound."""
    report = verify_store(root)
    assert report.ok == ENTRIES
    return report


def copied(paths: list[str]) -> object:
    """The same bytes, through a program that looks at none of them."""
    return subprocess.run(["cat", *paths], stdout=NOWHERE, check=True)  # noqa: S607  the user's


def forgotten(paths: list[str], work: Callable[[], object]) -> object:
    """Work on files that are not in the page cache; on Linux only."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    return work()


def main() -> None:
    """One store, twice."""
    with tempfile.TemporaryDirectory() as folder:
        root = StoreRoot(Path(folder), NativeLayout(), create_meta(Path(folder), target="native"))
        paths = []
        with DiskStore(root, mode="w") as store:
            for number in range(ENTRIES):
                entry = make_entry(number, SIZE_MIB)
                store.put(entry)
                paths.append(str(root.path / root.layout.path_of(entry.key)))
        ours, peer = partial(verified, root), partial(copied, paths)
        label = f"verify {ENTRIES} x {SIZE_MIB} MiB"
        compare(f"{label}, hot / cat", ours, peer, unit="ms", rounds=9)
        if hasattr(os, "posix_fadvise"):
            cold = (partial(forgotten, paths, work) for work in (ours, peer))
            compare(f"{label}, cold / cat", *cold, unit="ms", rounds=7)


if __name__ == "__main__":
    main()
