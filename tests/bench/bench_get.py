"""P7 and P7b: get an entry, checked and verified whole, against readers that check nothing.

Entries lie in the page cache; each get takes another one of them, as a server's would.
"""

from __future__ import annotations

import itertools
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from tests.bench.measure import compare
from vcache_cli.digest import digest_bytes
from vcache_cli.entry import Entry, Provenance
from vcache_cli.items import Kind, Stage
from vcache_cli.recipe import EncoderRecipe, Recipe
from vcache_cli.store import DiskStore, StoreRoot, create_meta
from vcache_cli.targets import NativeLayout, native_key
from vcache_cli.tensor import Tensor

__all__ = ["RECIPE", "make_entry"]

MIB = 1024 * 1024
RECIPE = Recipe(
    stage=Stage.FEATURES,
    target="native",
    profile="transformers-pil-5",
    profile_revision=1,
    family="siglip",
    family_revision=1,
    settings={
        "do_convert_rgb": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "resample": 3,
        "rescale_factor": 1 / 255,
        "size": {"height": 224, "width": 224},
    },
    encoder=EncoderRecipe("siglip", 1, "f" * 64, "hidden", "F32", "F32"),
)


def make_entry(number: int, size_mib: int) -> Entry:
    """An entry as a warm makes it, told from others by `number`; every eighth has equal data."""
    source = digest_bytes(b"bench %d" % number)
    data = noise(number % 8, size_mib * MIB)
    provenance = Provenance(
        source,
        RECIPE.as_json(),
        "siglip-base",
        Kind.IMAGE,
        196,
        "2026-01-02T03:04:05Z",
        {"backend": "numpy", "numpy": "2.3.0", "pillow": "12.0.0"},
    )
    return Entry(
        native_key(Stage.FEATURES, source, RECIPE.digest),
        Stage.FEATURES,
        {"features": Tensor("F32", (size_mib * 256, 1024), data)},
        provenance,
    )


@cache
def noise(seed: int, size_bytes: int) -> bytes:
    """Bytes that no filesystem can make smaller."""
    return random.Random(seed).randbytes(size_bytes)


def by_turns(values: list[str], work: Callable[[str], object]) -> Callable[[], object]:
    """Work on the next of `values` each time."""
    following: Iterator[str] = itertools.cycle(values)
    return lambda: work(next(following))


def raw(path: str) -> object:
    """The bytes of the file in a numpy array, and nothing else."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        array = np.empty(os.fstat(fd).st_size, np.uint8)
        os.readv(fd, [array.data])
    finally:
        os.close(fd)
    return array


def features(store: DiskStore, key: str) -> object:
    """What a server wants of a get."""
    entry = store.get(key)
    assert entry is not None
    return entry.numpy("features")


def main() -> None:
    """Two sizes, two peers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store")
        root = StoreRoot(path, NativeLayout(), create_meta(path, target="native"))
        for size_mib, count in ((1, 32), (8, 8)):
            entries = [make_entry(number, size_mib) for number in range(count)]
            with DiskStore(root, mode="w") as store:
                for entry in entries:
                    store.put(entry)
            keys = [entry.key for entry in entries]
            paths = [str(path / root.layout.path_of(key)) for key in keys]
            reader = DiskStore(root)
            ours = by_turns(keys, partial(features, reader))
            # Not the file that ours has just brought into the processor's cache.
            paths = paths[count // 2 :] + paths[: count // 2]
            label = f"{size_mib} MiB"
            compare(f"P7 get {label} / load_file", ours, by_turns(paths, load_file))
            compare(f"P7b get {label} / raw readv", ours, by_turns(paths, raw))


if __name__ == "__main__":
    main()
