"""The golden entries of servers' own stores, made by the very code that a warm runs.

The clock stands still, and the encoder is a table: what is golden is the file, not the model.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vcache_cli.digest import digest_bytes
from vcache_cli.entry import Entry, Provenance
from vcache_cli.items import Features, Frames, Kind, MediaItem, Pixels, Stage
from vcache_cli.pipeline import EncodeBatch
from vcache_cli.pipeline.prepared import Prepared
from vcache_cli.pipeline.trace import Trace
from vcache_cli.protocols import Annotator, Evidence, WarmTarget
from vcache_cli.recipe import EncoderRecipe, Recipe
from vcache_cli.store.writer import pack_entry
from vcache_cli.targets import OmlxTarget, VllmEcTarget

__all__ = ["EPOCH_SECONDS", "PICTURE", "SERVED", "served_bytes", "served_entry"]

FOLDER = Path(__file__).parent
EPOCH_SECONDS = 1_767_323_045
SERVED: Mapping[str, tuple[WarmTarget, Path]] = {
    "omlx": (OmlxTarget(), FOLDER / "omlx-1.safetensors"),
    "vllm-ec": (VllmEcTarget(), FOLDER / "vllm-ec-1.safetensors"),
}
"""Targets with their golden file."""

PICTURE = np.arange(18, dtype=np.uint8).reshape(1, 2, 3, 3)
"""Three pixels wide, two high; RGB."""
ROWS = np.array([[0.5, -1.0, 3.0], [1.0, 2.0, -0.25]], np.float32)
PIXELS = Pixels({"image_grid_thw": np.array([1, 2, 4], np.int64)}, num_tokens=2)
OPTIONS = {"omlx": {"model_name": "/models/Qwen2.5-VL-tiny", "max_side": 2048}}


@dataclass(frozen=True)
class Table:
    """Gives the same two tokens for every picture, DeepStack features beside them."""

    fingerprint: str = "f" * 64
    concurrency: int = 1

    def bucket(self, _pixels: Pixels) -> Hashable:
        return None

    def encode(self, batch: Sequence[Pixels]) -> list[Features]:
        tensors = {"features": ROWS, "deepstack_0": ROWS + 8, "deepstack_1": ROWS - 8}
        return [Features(tensors) for _ in batch]

    @property
    def device(self) -> dict[str, str]:
        return {"backend": "table", "device": "none", "dtype": "F32"}

    @property
    def versions(self) -> dict[str, str]:
        return {}

    def feature_shapes(self, num_tokens: int) -> dict[str, tuple[int, ...]]:
        return {"features": (num_tokens, 3)}

    @property
    def pixel_shape(self) -> None:
        return None


def served_recipe(name: str) -> Recipe:
    """A recipe with a value in every part."""
    return Recipe(
        stage=Stage.FEATURES,
        target=name,
        profile="omlx",
        profile_revision=1,
        family="qwen2_5_vl",
        family_revision=1,
        settings={"patch_size": 14, "note": "\u00e9"},
        target_options=OPTIONS.get(name, {}),
        encoder=EncoderRecipe("qwen2_5_vl", 1, "f" * 64, "projected", "F32", "BF16"),
    )


def served_entry(name: str) -> Entry:
    """As a warm hands it to the writers."""
    target, recipe = SERVED[name][0], served_recipe(name)
    source = digest_bytes(b"golden source")
    evidence = Evidence(source, Frames(PICTURE), PIXELS)
    key = target.key(recipe, evidence)
    metadata = target.metadata(recipe, evidence) if isinstance(target, Annotator) else {}
    trace = Trace(MediaItem("golden.png"), source_sha256=source, kind=Kind.IMAGE, key=key)
    entries: list[Entry] = []

    def submit(entry: Entry) -> Future[int]:
        entries.append(entry)
        return Future()

    provenance = Provenance(recipe=recipe.as_json(), model="tiny", versions={"pillow": "12.0"})
    encode = EncodeBatch(recipe, target, Table(), lambda: provenance, submit)
    with _clock_stands():
        encode([Prepared(trace, key, (PIXELS,), metadata)])
    return entries[0]


def served_bytes(name: str) -> bytes:
    """What the present code writes."""
    entry = served_entry(name)
    with _clock_stands():
        packed = pack_entry(entry, SERVED[name][0].layout)
    return b"".join(bytes(part) for part in packed.parts)


@contextmanager
def _clock_stands() -> Iterator[None]:
    before = os.environ.get("SOURCE_DATE_EPOCH")
    os.environ["SOURCE_DATE_EPOCH"] = str(EPOCH_SECONDS)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SOURCE_DATE_EPOCH"]
        else:
            os.environ["SOURCE_DATE_EPOCH"] = before
