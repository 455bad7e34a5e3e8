"""Small implementations of the sockets, with which a pass runs in memory."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vcache_cli.engines import ThreadEngine
from vcache_cli.entry import Entry, Provenance
from vcache_cli.errors import EncodeError, MediaError, VcacheError
from vcache_cli.items import Features, FileStat, Frames, Kind, MediaItem, Pixels, Stage
from vcache_cli.outcome import Failure, Outcome
from vcache_cli.pipeline import PrepareItem, Triage, WarmParts, WarmPass
from vcache_cli.pipeline.encoding import EncodeBatch
from vcache_cli.pipeline.ledger import Ledger
from vcache_cli.protocols import Recall, Seen
from vcache_cli.recipe import EncoderRecipe, Recipe
from vcache_cli.targets.native import NativeTarget

if TYPE_CHECKING:
    from numpy.typing import NDArray

RECIPE = Recipe(
    stage=Stage.FEATURES,
    target="native",
    profile="fake",
    profile_revision=1,
    family="fake",
    family_revision=1,
    settings={},
    encoder=EncoderRecipe("fake", 1, "0" * 64, "hidden", "F32", "F32"),
)


@dataclass(frozen=True)
class FakeDecoder:
    """`IMG` starts a picture, `VID` a clip; a picture that says `broken` cannot be decoded."""

    def sniff(self, head: bytes) -> Kind:
        return {b"IMG": Kind.IMAGE, b"VID": Kind.VIDEO}.get(head[:3], Kind.OTHER)

    def decode(self, data: bytes) -> Frames:
        if b"broken" in data:
            raise MediaError("broken on purpose", kind="corrupt")
        rgb = np.zeros((1, 1, 1, 3), np.uint8)
        rgb[...] = len(data) % 256
        return Frames(rgb, warnings=("alpha_dropped",) if b"alpha" in data else ())

    def measure(self, data: bytes) -> tuple[int, int]:
        if b"headless" in data:
            raise MediaError("no header, on purpose", kind="corrupt")
        return 1, 1


@dataclass(frozen=True)
class FakePreprocessor:
    """One value per item; a picture of 66 bytes is one that the encoder will refuse."""

    def __call__(self, frames: Frames) -> Pixels:
        return Pixels({"pixel_values": frames.rgb.astype(np.float32)}, num_tokens=1)

    pixel_shape: tuple[int, int, int] | None = None

    def compact(self, frames: Frames) -> Pixels:
        return self(frames)

    def processed(self, request: Sequence[Pixels]) -> dict[str, NDArray[Any]]:
        return {"pixel_values": np.stack([each.tensors["pixel_values"] for each in request])}

    def num_tokens(self, width: int, height: int) -> int:
        return 1

    def pixel_bytes(self, width: int, height: int, *, compact: bool = False) -> int:
        return 12


@dataclass
class FakeEncoder:
    """Counts what it encodes; refuses any batch with a value of 66."""

    fingerprint: str = "0" * 64
    concurrency: int = 2
    pixel_shape: tuple[int, ...] | None = None
    device: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    encoded: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def bucket(self, pixels: Pixels) -> Hashable:
        return pixels.shape_key

    def feature_shapes(self, num_tokens: int) -> dict[str, tuple[int, ...]]:
        return {"features": (num_tokens, 2)}

    def encode(self, batch: Sequence[Pixels]) -> list[Features]:
        values = [float(pixels.tensors["pixel_values"].ravel()[0]) for pixels in batch]
        if 66.0 in values:
            raise EncodeError("a value of 66", kind="refused")
        with self.lock:
            self.encoded += len(batch)
        return [Features({"features": np.full((1, 2), value, np.float32)}) for value in values]


@dataclass
class MemoryStore:
    """Entries in a dict, written by a thread; may run full."""

    capacity: int = 1_000_000
    error: VcacheError | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    touched: list[str] = field(default_factory=list)
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def contains(self, key: str) -> bool:
        return key in self.entries

    def use(self, key: str) -> bool:
        if key in self.entries:
            self.touched.append(key)
        return key in self.entries

    def submit(self, entry: Entry) -> Future[int]:
        return self.pool.submit(self._put, entry)

    def _put(self, entry: Entry) -> int:
        if len(self.entries) >= self.capacity and self.error:
            raise self.error
        self.entries[entry.key] = entry
        return entry.size_bytes


@dataclass
class MemoryLedger:
    """Memos in dicts."""

    seen: dict[tuple[str, FileStat], Seen] = field(default_factory=dict)
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    failures: dict[tuple[str, str], Failure] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    sources: list[tuple[str, str]] = field(default_factory=list)
    commits: int = 0

    def recall(
        self, files: Sequence[tuple[str, FileStat]], context: str | None
    ) -> list[Recall | None]:
        found = [self.unchanged(path, stat) for path, stat in files]
        return [
            Recall(seen, self.known(seen.source_sha256, context) if context else None)
            if seen
            else None
            for seen in found
        ]

    def unchanged(self, path: str, stat: FileStat) -> Seen | None:
        return self.seen.get((path, stat))

    def known(self, source_sha256: str, context: str) -> str | None:
        return self.keys.get((source_sha256, context))

    def failed(self, source_sha256: str, context: str) -> Failure | None:
        return self.failures.get((source_sha256, context))

    def remember_unchanged(self, path: str, stat: FileStat, seen: Seen) -> None:
        self.seen[path, stat] = seen

    def remember_known(self, source_sha256: str, context: str, key: str) -> None:
        self.keys[source_sha256, context] = key

    def remember_failure(self, source_sha256: str, context: str, failure: Failure) -> None:
        self.failures[source_sha256, context] = failure

    def add_entry(self, entry: Entry, size_bytes: int) -> None:
        self.added.append(entry.key)

    def add_source(self, key: str, path: str) -> None:
        self.sources.append((key, path))

    def commit(self) -> None:
        self.commits += 1


@dataclass
class Rig:
    """A pass over fakes; the store and the ledger outlive it, as between two runs."""

    store: MemoryStore = field(default_factory=MemoryStore)
    ledger: Ledger = field(default_factory=MemoryLedger)
    target: NativeTarget = field(default_factory=NativeTarget)
    encoder: FakeEncoder = field(default_factory=FakeEncoder)
    batch_size: int = 4
    workers: int = 2
    retry_errors: bool = False

    def make(self) -> WarmPass:
        """A new pass."""
        target = self.target
        triage = Triage(
            RECIPE,
            target,
            self.ledger,
            lambda: "context",
            self.store.use,
            retry_errors=self.retry_errors,
        )
        encode = EncodeBatch(RECIPE, target, self.encoder, Provenance, self.store.submit)
        return WarmPass(
            WarmParts(
                triage=triage,
                hire=lambda: ThreadEngine(self.workers).session(self.prepare()),
                encode=encode,
                ledger=self.ledger,
                touch=self.store.touched.append,
                encoders=ThreadEngine(self.encoder.concurrency),
                batch_size=self.batch_size,
            )
        )

    def prepare(self) -> PrepareItem:
        """The work on each item."""
        return PrepareItem(
            RECIPE, self.target, FakeDecoder(), FakePreprocessor(), self.store.contains, 1_000_000
        )

    def run(self, items: Sequence[MediaItem]) -> list[Outcome]:
        """All Outcomes of one pass."""
        return list(self.make().run(items))


def item_of(path: Path, *, explicit: bool = False) -> MediaItem:
    """The item of a file, as discovery finds it."""
    stat = FileStat.of(path.stat()) if path.is_file() else None
    return MediaItem(str(path), stat, explicit=explicit)


def write_items(
    folder: Path, contents: Sequence[bytes], *, suffix: str = ".jpg"
) -> list[MediaItem]:
    """A file per content, and its item."""
    items = []
    for number, content in enumerate(contents):
        path = folder / f"{number:04d}{suffix}"
        path.write_bytes(content)
        items.append(item_of(path))
    return items
