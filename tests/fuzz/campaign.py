"""One campaign: nearly right files, put before our reader and the two that servers use.

The dangerous direction is a file that we take while another reader refuses it, sees other
tensors, dies of it or hangs. That we refuse what others take is what a strict reader is for.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from tests.fuzz.mlx_reader import DTYPES, MlxReader
from tests.fuzz.mutations import Seed, generated, mutated, seed_of
from tests.fuzz.readers import Readers, Seen, difference, reference
from vcache_cli.checkpoint.weights import LIMITS as CHECKPOINTS
from vcache_cli.errors import InvalidEntryError
from vcache_cli.header import LENGTH_BYTES
from vcache_cli.protocols import Layout
from vcache_cli.store import DiskStore, StoreRoot
from vcache_cli.store.checksum import DIGITS, digits_at, start_checksum
from vcache_cli.store.create import create_meta
from vcache_cli.store.files import OsFiles
from vcache_cli.store.reader import EntryReader
from vcache_cli.targets import NativeLayout, OmlxLayout, VllmEcLayout
from vcache_cli.targets.mlx_vlm_layout import MlxVlmLayout

__all__ = ["Campaign", "Tally"]

GOLDEN: Final = Path(__file__).resolve().parents[1] / "golden"
BATCH: Final = 64
SLOW_SECONDS: Final = 1.0
ESCAPED: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, OSError),
    *(RuntimeError, TypeError, ValueError),
)
"""What a reader must not raise: anything but its own error."""
READABLE: Final = frozenset(DTYPES.values())


@dataclass
class Tally:
    """What a campaign counted."""

    cases: int = 0
    accepted: int = 0
    """Taken by us, under the limits of any layout."""
    asked_mlx: int = 0
    entries: int = 0
    """Of the cases, those that are whole entries, checksum included."""
    gets: int = 0
    """Files read through a store's `get`."""
    dangerous: list[str] = field(default_factory=list)
    """What we took and another reader did not, or not so."""
    crashes: list[str] = field(default_factory=list)
    """Of our reader: anything it raised that it should not, or took too long for."""
    stricter: Counter[str] = field(default_factory=Counter)
    """Refused by us under all limits, by what the reference makes of it."""
    slowest_seconds: float = 0.0

    @property
    def is_clean(self) -> bool:
        """True where nothing dangerous was seen."""
        return not self.dangerous and not self.crashes


@dataclass(frozen=True)
class _Shelf:
    """A layout, its limits, and a place where one of its entries belongs."""

    name: str
    readers: Readers
    entries: EntryReader | None = None
    place: str = ""
    field: str | None = None


def _golden() -> list[tuple[bytes, Layout]]:
    pairs: tuple[tuple[str, Layout], ...] = (
        ("native-1", NativeLayout()),
        ("native-2", NativeLayout()),
        ("omlx-1", OmlxLayout()),
        ("vllm-ec-1", VllmEcLayout()),
    )
    return [((GOLDEN / f"{name}.safetensors").read_bytes(), layout) for name, layout in pairs]


class Campaign:
    """A seeded campaign below `folder`, which it fills with scratch files and with what is kept."""

    def __init__(self, seed: int, folder: Path, *, asks_mlx: bool = True) -> None:
        self._rng = random.Random(seed)
        self._folder = folder
        self._mlx = MlxReader() if asks_mlx else None
        self.tally = Tally()
        self._golden = _golden()
        self._seeds: list[Seed] = [seed_of(data) for data, _ in self._golden]
        self._shelves = [
            _shelf(f"golden {n}", layout) for n, (_, layout) in enumerate(self._golden)
        ]
        self._shelves += [_shelf("mlx-vlm", MlxVlmLayout())]
        self._shelves.append(_Shelf("checkpoint", Readers(CHECKPOINTS)))
        meta = create_meta(folder / "store", target="native")
        self._store = DiskStore(StoreRoot(folder / "store", NativeLayout(), meta))
        self._waiting: list[tuple[Path, Seen, str]] = []

    def run(self, *, seconds: float, cases: int | None = None, to_first: bool = False) -> Tally:
        """Go on until the time or the cases are used up, or to the first dangerous file."""
        end = time.monotonic() + seconds
        for number in count():
            if time.monotonic() >= end or (cases is not None and number >= cases):
                break
            if to_first and self.tally.dangerous:
                break
            self._one(number)
        self._ask()
        if self._mlx:
            self._mlx.close()
        return self.tally

    def _one(self, number: int) -> None:
        rng = self._rng
        at = rng.randrange(len(self._seeds))
        seed = self._seeds[at] if rng.random() < 0.6 else generated(rng)
        data = mutated(seed, rng)
        self.tally.cases += 1
        begun = time.process_time()  # a busy machine is no fault of ours
        try:
            self._judge(data)
            self._whole(data, number)
        except ESCAPED as error:
            self._keep("crashes", data, f"{type(error).__name__}: {error}")
        taken = time.process_time() - begun
        self.tally.slowest_seconds = max(self.tally.slowest_seconds, taken)
        if taken > SLOW_SECONDS:
            self._keep("crashes", data, f"took {taken:.1f} s of the processor")
        if len(self._waiting) >= BATCH:
            self._ask()

    def _judge(self, data: bytes) -> None:
        """Our reader under all limits, against the reference."""
        theirs: Seen | str | None = None
        seen = [(shelf, found) for shelf in self._shelves if (found := shelf.readers.seen(data))]
        for shelf, found in seen:
            foreign = {
                dtype for dtype, _, _ in found.tensors.values()
            } - shelf.readers.limits.dtypes
            if foreign:  # never read by us: their sizes are nobody's business
                continue
            theirs = theirs or reference(data)
            told = theirs if isinstance(theirs, str) else difference(found, theirs)
            if told:
                self._keep("dangerous", data, f"{shelf.name}, safetensors: {told}")
                return
        if seen:
            self.tally.accepted += 1
            self._queue(data, *seen[0])
        else:
            verdict = reference(data)
            kind = "refused" if isinstance(verdict, str) else "taken"
            self.tally.stricter[kind] += 1

    def _queue(self, data: bytes, shelf: _Shelf, found: Seen) -> None:
        dtypes = {dtype for dtype, _, _ in found.tensors.values()}
        if self._mlx is None or not dtypes <= READABLE:
            return
        path = self._folder / f"waiting-{len(self._waiting)}.safetensors"
        path.write_bytes(data)
        self._waiting.append((path, found, shelf.name))

    def _ask(self) -> None:
        """MLX, about the files that wait."""
        waiting, self._waiting = self._waiting, []
        if self._mlx is None:
            return
        paths = [str(path) for path, _, _ in waiting]
        for (path, ours, name), theirs in zip(waiting, self._mlx.answers(paths), strict=True):
            self.tally.asked_mlx += 1
            told = theirs if isinstance(theirs, str) else difference(ours, theirs)
            if told:
                self._keep("dangerous", path.read_bytes(), f"{name}, mlx: {told}")

    def _whole(self, data: bytes, number: int) -> None:
        """The whole way of a get, with a checksum that is right: only misses and entries."""
        for shelf in self._shelves:
            if shelf.entries is None:
                continue
            signed = _signed(data, shelf.field)
            try:
                shelf.entries.parse(signed, shelf.place)
                self.tally.entries += 1
            except InvalidEntryError:
                pass
        if number % 8 == 0:
            key = "ab" + "0" * 62
            path = self._store.root.path / self._store.root.layout.path_of(key)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(_signed(data, "vcache.xxh3_128"))
            self._store.get(key)
            self.tally.gets += 1

    def _keep(self, kind: str, data: bytes, told: str) -> None:
        kept = self._folder / f"{kind}-{len(getattr(self.tally, kind))}.safetensors"
        kept.write_bytes(data)
        getattr(self.tally, kind).append(f"{kept.name}: {told}")


def _shelf(name: str, layout: Layout) -> _Shelf:
    reader = EntryReader(OsFiles(), layout)
    place = next(_places(layout))
    return _Shelf(name, Readers(layout.limits), reader, place, layout.checksum_field)


def _places(layout: Layout) -> Iterator[str]:
    """Where entries of the layout may lie."""
    keys: Sequence[str] = ("ab" + "0" * 62, "0" * 16, "0" * 64)
    for key in keys:
        try:
            yield layout.path_of(key)
        except ValueError:
            continue
    yield "x.safetensors"


def _signed(data: bytes, name: str | None) -> bytes:
    """`data` with the checksum that it should have, where it has a place for one."""
    if name is None:
        return data
    end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")
    try:
        at = LENGTH_BYTES + digits_at(data[LENGTH_BYTES:end], name)
    except InvalidEntryError:
        return data
    digits = start_checksum(data, at).hexdigest().encode()
    return data[:at] + digits + data[at + DIGITS :]
