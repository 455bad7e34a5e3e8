"""Make the golden entries: files of formats 1 and 2, and of servers' stores.

Every later version must read them.

    python -m tests.golden.make_golden --update-golden

Never run it to make a test pass: a difference means that old stores would be recomputed.
"""

from __future__ import annotations

import argparse
import struct
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.golden.served import SERVED, served_bytes
from vcache_cli.digest import digest_bytes, digest_json
from vcache_cli.entry import Entry, Provenance
from vcache_cli.items import Kind, Stage
from vcache_cli.levels import LevelTensor
from vcache_cli.store import OsFiles, StoreRoot, create_meta
from vcache_cli.store.export import export_store
from vcache_cli.store.writer import Publisher, pack_entry
from vcache_cli.targets import NativeLayout, native_key
from vcache_cli.tensor import Tensor

__all__ = [
    "GOLDEN",
    "GOLDEN_EXPORT",
    "GOLDEN_LEVELS",
    "golden_bytes",
    "golden_entry",
    "golden_export",
    "golden_levels",
]

GOLDEN = Path(__file__).with_name("native-1.safetensors")
GOLDEN_LEVELS = Path(__file__).with_name("native-2.safetensors")
GOLDEN_EXPORT = Path(__file__).with_name("export-1.tar")
"""Of a store of both."""


def golden_entry() -> Entry:
    """Every field of provenance, and tensors of four item sizes."""
    recipe = {
        "family": "siglip",
        "settings": {"mean": [0.5, 0.5, 0.5], "size": 8},
        "note": "\u00e9",
    }
    source = digest_bytes(b"golden source")
    provenance = Provenance(
        source,
        recipe,
        "tiny \u00e9",
        Kind.IMAGE,
        3,
        "2026-01-02T03:04:05Z",
        {"pillow": "12.0", "numpy": "2.3"},
    )
    tensors = {
        "features": Tensor("BF16", (3, 4), bytes(range(24))),
        "image_grid_thw": Tensor(
            "I64", (1, 3), b"".join(n.to_bytes(8, "little") for n in (1, 2, 3))
        ),
        "mask": Tensor("BOOL", (3,), b"\x01\x00\x01"),
        "pooled": Tensor("F32", (2,), bytes.fromhex("0000803f000000c0")),
        "scale": Tensor("F32", (), bytes.fromhex("0000003f")),
    }
    key = native_key(Stage.FEATURES, source, digest_json(recipe))
    return Entry(key, Stage.FEATURES, tensors, provenance)


def golden_levels() -> Entry:
    """Pixels as levels: two patches of three channels, two neighbours each, and their grid."""
    recipe = {"family": "qwen2_vl", "settings": {"patch_size": 1, "temporal_patch_size": 2}}
    source = digest_bytes(b"golden source")
    provenance = Provenance(source, recipe, kind=Kind.IMAGE, created="2026-01-02T03:04:05Z")
    values = b"".join(
        struct.pack("<f", level / 256 - channel) for channel in range(3) for level in range(256)
    )
    levels = Tensor("U8", (2, 6), bytes((0, 1, 2, 3, 254, 255, 128, 127, 9, 8, 7, 6)))
    table = Tensor("F32", (3, 256), values)
    grid = Tensor("I64", (3,), b"".join(n.to_bytes(8, "little") for n in (1, 1, 2)))
    pixels = LevelTensor(levels, table, axis=1, stride=2)
    key = native_key(Stage.PIXELS, source, digest_json(recipe))
    return Entry(key, Stage.PIXELS, {"pixel_values": pixels, "image_grid_thw": grid}, provenance)


def golden_bytes(entry: Entry) -> bytes:
    """What the present code writes."""
    return b"".join(bytes(part) for part in pack_entry(entry, NativeLayout()).parts)


def golden_export(folder: Path) -> bytes:
    """What the present code exports; the store is made in `folder`."""
    root = StoreRoot(
        folder / "store", NativeLayout(), create_meta(folder / "store", target="native")
    )
    publisher = Publisher(OsFiles(), root)
    for entry in (golden_entry(), golden_levels()):
        publisher.publish(publisher.pack(entry))
    out = BytesIO()
    export_store(root, out.write)
    return out.getvalue()


def main() -> None:
    """Write the files where that was asked for by name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update-golden", action="store_true", required=True)
    parser.parse_args()
    GOLDEN.write_bytes(golden_bytes(golden_entry()))
    GOLDEN_LEVELS.write_bytes(golden_bytes(golden_levels()))
    with TemporaryDirectory() as folder:
        GOLDEN_EXPORT.write_bytes(golden_export(Path(folder)))
    for name, (_, path) in SERVED.items():
        path.write_bytes(served_bytes(name))


if __name__ == "__main__":
    main()
