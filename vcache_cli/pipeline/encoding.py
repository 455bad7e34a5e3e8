"""Batches of prepared items, encoded and handed to the writers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from vcache_cli.entry import Entry, Provenance, creation_time
from vcache_cli.errors import EncodeError
from vcache_cli.items import Kind, Pixels
from vcache_cli.media import av_version
from vcache_cli.outcome import Outcome
from vcache_cli.protocols import GroupTarget, LevelTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from concurrent.futures import Future

    from vcache_cli.items import Features
    from vcache_cli.pipeline.prepared import Prepared
    from vcache_cli.protocols import Encoder, WarmTarget
    from vcache_cli.recipe import Recipe
    from vcache_cli.tensor import Tensor

    Values: TypeAlias = list[Pixels] | list[Features]

__all__ = ["Batcher", "EncodeBatch", "Written"]

_BATCH_BYTES: Final = 64 * 1024**2
"""Pixels of a full batch: large pictures fill an encoder with fewer of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """An item that was handed to the writers, or failed before."""

    prepared: Prepared
    entry: Entry | None = None
    future: Future[int] | None = None
    """Resolves to the bytes written once the entry is durable."""
    failed: Outcome | None = None
    submitted_at: float = 0.0
    """By `time.perf_counter`."""
    ended_at: list[float] = field(default_factory=list)
    """When writing ended, once it has: filled by the writer's thread."""

    def write_seconds(self) -> float:
        """From the hand-over until the entry was durable, waiting included."""
        ended_at = self.ended_at[0] if self.ended_at else time.perf_counter()
        return ended_at - self.submitted_at


class Batcher:
    """Collects items that may share a batch until it is full. Bounded; one thread.

    Args:
        batch_size: items of a full batch.
        bucket: items with an equal one may share a batch; a group stands alone.
    """

    def __init__(self, batch_size: int, bucket: Callable[[Pixels], Hashable]) -> None:
        self._batch_size = batch_size
        self._bucket = bucket
        self._open: dict[Hashable, _Batch] = {}

    def add(self, prepared: Prepared) -> list[Prepared] | None:
        """A batch that is now full, or the fullest one where too much waits."""
        bucket = self._bucket_of(prepared)
        batch = self._open.setdefault(bucket, _Batch())
        batch.add(prepared)
        if len(batch.items) >= self._batch_size or batch.size_bytes >= _BATCH_BYTES:
            return self._open.pop(bucket).items
        if self._is_crowded():
            return self._open.pop(max(self._open, key=lambda key: self._open[key].fullness)).items
        return None

    def flush(self) -> list[Prepared] | None:
        """One of the batches that never filled; None where nothing waits."""
        return self._open.pop(next(iter(self._open))).items if self._open else None

    def _bucket_of(self, prepared: Prepared) -> Hashable:
        return self._bucket(prepared.pixels[0]) if len(prepared.pixels) == 1 else prepared.key

    def _is_crowded(self) -> bool:
        waiting = self._open.values()
        return (
            sum(len(batch.items) for batch in waiting) >= 4 * self._batch_size
            or sum(batch.size_bytes for batch in waiting) >= 4 * _BATCH_BYTES
        )


@dataclass(slots=True, eq=False)
class _Batch:
    """Items that wait for others."""

    items: list[Prepared] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, prepared: Prepared) -> None:
        self.items.append(prepared)
        self.size_bytes += sum(pixels.size_bytes for pixels in prepared.pixels)

    @property
    def fullness(self) -> tuple[int, int]:
        return len(self.items), self.size_bytes


@dataclass(frozen=True, slots=True)
class EncodeBatch:
    """Encodes a batch and submits its entries, in as many threads as the encoder allows.

    A failing batch is halved until the bad item stands alone.
    """

    recipe: Recipe
    target: WarmTarget
    encoder: Encoder | None
    """None for stage ``pixels``: what was prepared is what is stored."""
    make_provenance: Callable[[], Provenance]
    """What all entries of the run share."""
    submit: Callable[[Entry], Future[int]]

    def bucket(self, pixels: Pixels) -> Hashable:
        """Items with an equal one may share a batch."""
        return self.encoder.bucket(pixels) if self.encoder else pixels.shape_key

    def __call__(self, batch: Sequence[Prepared]) -> list[Written]:
        """One `Written` per item, in order."""
        started = time.perf_counter()
        try:
            values = self._values(batch)
        except (EncodeError, MemoryError) as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                return [*self(batch[:middle]), *self(batch[middle:])]
            return [_failed(batch[0], error)]
        seconds = (time.perf_counter() - started) / len(batch)
        return [
            self._written(prepared, value, seconds)
            for prepared, value in zip(batch, values, strict=True)
        ]

    def _values(self, batch: Sequence[Prepared]) -> list[Values]:
        """Of each prepared one, the values of its pictures."""
        if self.encoder is None:
            return [list(prepared.pixels) for prepared in batch]
        if all(len(prepared.pixels) == 1 for prepared in batch):
            features = self.encoder.encode([prepared.pixels[0] for prepared in batch])
            return [[each] for each in features]
        # Pictures of a request may differ in shape: each is a batch of its own.
        return [[self.encoder.encode([p])[0] for p in prepared.pixels] for prepared in batch]

    def _written(self, prepared: Prepared, value: Values, seconds: float) -> Written:
        try:
            return self._write(prepared, value, seconds)
        except EncodeError as error:
            return _failed(prepared, error)

    def _write(self, prepared: Prepared, value: Values, seconds: float) -> Written:
        if self.encoder:
            prepared.trace.spend("encode", seconds)
        recipe, shared = self.recipe, self.make_provenance()
        if prepared.recipe is not None:
            recipe = prepared.recipe
            shared = replace(shared, recipe=recipe.as_json())
        if prepared.trace.kind is Kind.VIDEO:
            shared = replace(shared, versions={**shared.versions, "av": av_version()})
        provenance = replace(
            shared,
            source_sha256=prepared.trace.source_sha256,
            kind=prepared.trace.kind,
            num_tokens=sum(each.num_tokens for each in value),
            created=creation_time(),
        )
        tensors = self._tensors(value)
        entry = Entry(prepared.key, recipe.stage, tensors, provenance, prepared.metadata)
        bare = replace(prepared, pixels=())  # what waits for the disk needs no pixels
        written = Written(bare, entry, submitted_at=time.perf_counter())
        future = self.submit(entry)
        future.add_done_callback(lambda _: written.ended_at.append(time.perf_counter()))
        return replace(written, future=future)

    def _tensors(self, value: Values) -> dict[str, Tensor]:
        first = value[0]
        if isinstance(first, Pixels) and first.tables and isinstance(self.target, LevelTarget):
            return self.target.level_tensors(self.recipe, first)
        if len(value) == 1:
            return self.target.tensors(self.recipe, first)
        if not isinstance(self.target, GroupTarget):
            raise TypeError(f"target `{self.target.name}` has no entries of groups")
        return self.target.group_tensors(self.recipe, value)


def _failed(prepared: Prepared, error: EncodeError | MemoryError) -> Written:
    if isinstance(error, MemoryError):
        error = EncodeError(
            "not enough memory", kind="out_of_memory", hint="use a smaller --batch-size"
        )
    prepared.trace.stage = "encode"
    return Written(prepared, failed=prepared.trace.fail(error))
