"""The pass of `warm`: values move one way, through bounded stages, to exactly one Outcome each."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vcache_cli.errors import AccessError, InvalidEntryError, StoreFullError, VcacheError
from vcache_cli.outcome import Failure, Outcome, PresentFiles, Status
from vcache_cli.pipeline.copies import Copies
from vcache_cli.pipeline.encoding import Batcher, EncodeBatch, Written
from vcache_cli.pipeline.frames import Bundle, Bundles, Still
from vcache_cli.pipeline.late import LateSession
from vcache_cli.pipeline.ledger import Ledger, Notebook
from vcache_cli.pipeline.lookahead import MOST_AHEAD, Lookahead
from vcache_cli.pipeline.prepared import Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from vcache_cli.items import WarmItem
    from vcache_cli.pipeline.triage import Triage
    from vcache_cli.protocols import Engine, Session

    Made = Prepared | Bundle | Outcome

__all__ = ["WarmParts", "WarmPass"]

_MAX_COPIES_WAITING: Final = 256
"""Copies that may wait for a batch to fill: memory stays bounded where all items are alike."""


@dataclass(frozen=True, slots=True)
class WarmParts:
    """What a pass is made of; `assemble` chooses each."""

    triage: Triage
    """Its `present` marks what it finds as used."""
    hire: Callable[[], AbstractContextManager[Session[WarmItem | Still, Made]]]
    """Opens the session of what is done to an item (`PrepareItem`), once there is one to do."""
    encode: EncodeBatch
    ledger: Ledger
    touch: Callable[[str], None]
    """Mark an entry as used, by key."""
    encoders: Engine
    """Runs `encode`, in as many threads as the encoder allows."""
    batch_size: int
    most_ahead: int = MOST_AHEAD
    """Items looked up at a time; 1 where the next one may be long in coming."""


class WarmPass:
    """One run over a corpus. Iterate `run`; `stop` ends it early from any thread."""

    def __init__(self, parts: WarmParts) -> None:
        self._parts = parts
        self._lookahead = Lookahead(parts.triage, most=parts.most_ahead)
        self._batcher = Batcher(parts.batch_size, parts.encode.bucket)
        self._notebook = Notebook(
            parts.ledger,
            parts.triage.make_context,
            keys_by_digest=parts.triage.target.key_from == "digest",
        )
        self._stopping = threading.Event()
        self._copies = Copies()
        self._writing: deque[Written] = deque()
        self._bundles = Bundles()
        self._stills: deque[Still] = deque()
        self.error: VcacheError | None = None
        """What ended the run early: no space, no permission."""

    @property
    def discover_seconds(self) -> float:
        """Time spent waiting for the walk."""
        return self._lookahead.discover_seconds

    def stop(self) -> None:
        """Take no further item; what is in flight is finished."""
        self._stopping.set()

    def give_up(self, error: VcacheError) -> None:
        """End the run early because of `error`; the first one counts."""
        self.error = self.error or error
        self.stop()

    def run(self, items: Iterable[WarmItem]) -> Generator[Outcome]:
        """The Outcome of each item, as it is known."""
        for outcomes in self.batches(zip(items)):
            yield from outcomes

    def batches(self, found: Iterable[Sequence[WarmItem]]) -> Generator[Sequence[Outcome]]:
        """As `run`, many at a time of items that were there: one by one they would cost more.

        Args:
            found: the items, as they were found; see `protocols.Batched`.
        """
        parts = self._parts
        with ExitStack() as held:
            prepare = LateSession(lambda: held.enter_context(parts.hire()))
            encode = held.enter_context(parts.encoders.session(parts.encode))
            for told, item in self._looked_up(found):
                if told:
                    yield told
                if item and not self._stopping.is_set():
                    yield from zip(self._submit(item, prepare, encode))  # each alone
                if self._stopping.is_set():
                    break
            yield from zip(self._drain(prepare, encode))
        parts.ledger.commit()

    def _looked_up(
        self, found: Iterable[Sequence[WarmItem]]
    ) -> Iterator[tuple[Sequence[Outcome], WarmItem | None]]:
        """In order: Outcomes of items no file of which need be opened, then one to work on.

        One that was not there is the last of its Outcomes: who counts failures may stop there.
        """
        for chunk in self._lookahead.over(found):
            if isinstance(chunk, PresentFiles):
                yield self._copies.settle_all(chunk), None
                continue
            told: list[Outcome] = []
            for item, early in chunk:
                settled = self._settle_present(early) if early else None
                if settled:
                    told.append(settled)
                if early is None or early.status is not Status.PRESENT:
                    yield told, None if early else item
                    told = []
            yield told, None

    def _submit(
        self,
        item: WarmItem,
        prepare: Session[WarmItem | Still, Made],
        encode: Session[list[Prepared], list[Written]],
    ) -> Iterator[Outcome]:
        """Start on an item; frames that came of one before go first."""
        todo: WarmItem | Still | None = item
        while todo is not None:
            prepare.submit(todo)
            yield from self._move(prepare, encode, wait=prepare.full)
            todo = self._stills.popleft() if self._stills else None

    def _move(
        self,
        prepare: Session[WarmItem | Still, Made],
        encode: Session[list[Prepared], list[Written]],
        *,
        wait: bool,
    ) -> Iterator[Outcome]:
        """Take what is ready from each stage and hand it to the next."""
        for result in prepare.take(wait=wait):
            if isinstance(result, Bundle):
                self._stills.extend(self._bundles.begin(result))
            elif isinstance(result, Outcome):
                yield from self._opened(self._told(result))
            else:
                yield from self._admit(result, encode)
        self._collect(encode, wait=False)
        yield from self._settle(wait=False)

    def _drain(
        self,
        prepare: Session[WarmItem | Still, Made],
        encode: Session[list[Prepared], list[Written]],
    ) -> Iterator[Outcome]:
        while prepare.pending or self._stills:
            while self._stills and not prepare.full:
                prepare.submit(self._stills.popleft())
            yield from self._move(prepare, encode, wait=True)
        yield from self._flush(encode)

    def _flush(self, encode: Session[list[Prepared], list[Written]]) -> Iterator[Outcome]:
        """Encode and write all that waits, full batch or not."""
        while batch := self._batcher.flush():
            yield from self._encode(encode, batch)
        while encode.pending:
            self._collect(encode, wait=True)
            yield from self._settle(wait=False)
        yield from self._settle(wait=True)

    def _admit(
        self, prepared: Prepared, encode: Session[list[Prepared], list[Written]]
    ) -> Iterator[Outcome]:
        """Put the item into a batch; a copy of one in flight waits for that one instead."""
        if not self._copies.is_first(prepared.key):
            yield from self._opened(self._told(prepared.trace.end(Status.PRESENT)))
            if self._copies.waiting >= _MAX_COPIES_WAITING:
                yield from self._flush(encode)
            return
        batch = self._batcher.add(prepared)
        if batch:
            yield from self._encode(encode, batch)

    def _encode(
        self, encode: Session[list[Prepared], list[Written]], batch: list[Prepared]
    ) -> Iterator[Outcome]:
        while encode.full:
            self._collect(encode, wait=True)
            yield from self._settle(wait=False)
        encode.submit(batch)

    def _collect(self, encode: Session[list[Prepared], list[Written]], *, wait: bool) -> None:
        for written in encode.take(wait=wait):
            self._writing.extend(written)

    def _settle(self, *, wait: bool) -> Iterator[Outcome]:
        """Outcomes of items whose writing has ended, with those of their copies."""
        for _ in range(len(self._writing)):
            written = self._writing.popleft()
            if wait or written.future is None or written.future.done():
                yield from self._finish(written)
            else:
                self._writing.append(written)

    def _finish(self, written: Written) -> Iterator[Outcome]:
        outcome = written.failed or self._stored(written)
        yield from self._opened([outcome, *self._copies.end(outcome)])

    def _stored(self, written: Written) -> Outcome:
        trace = written.prepared.trace
        if written.future is None or written.entry is None:
            raise TypeError("an item was neither written nor failed")
        try:
            trace.bytes_written = written.future.result()
        except (StoreFullError, AccessError) as error:
            self.give_up(error)
            return trace.end(Status.FAILED, _write_failure(error))
        except (OSError, InvalidEntryError) as error:  # this entry's trouble, not the store's
            return trace.end(Status.FAILED, _entry_failure(error))
        trace.spend("write", written.write_seconds())
        self._parts.ledger.add_entry(written.entry, trace.bytes_written)
        return trace.end(Status.STORED)

    def _told(self, outcome: Outcome) -> Iterator[Outcome]:
        """The Outcome of an item that ended early: a copy is told from what was there before."""
        settled = self._settle_present(outcome)
        if settled and settled.status is Status.PRESENT:
            for key in settled.entry_keys:
                self._parts.touch(key)
        if settled:
            yield settled

    def _settle_present(self, outcome: Outcome) -> Outcome | None:
        """None for a copy of what is in flight: its Outcome comes with that of the first."""
        return self._copies.settle(outcome) if outcome.status is Status.PRESENT else outcome

    def _opened(self, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Note what was learnt of items whose file was opened."""
        for outcome in map(self._bundles.fold, outcomes):
            if outcome:
                self._notebook.write(outcome)
                yield outcome


def _write_failure(error: VcacheError) -> Failure:
    return Failure("write", error.kind, error.message, error.hint, transient=True)


def _entry_failure(error: OSError | InvalidEntryError) -> Failure:
    if isinstance(error, InvalidEntryError):
        return Failure("write", "unstorable", error.message)
    return Failure("write", "io_error", error.strerror or str(error), transient=True)
