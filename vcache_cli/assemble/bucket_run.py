"""What a warm into a bucket does beside its pass: it says what was put there."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from vcache_cli.assemble.bucket_store import BucketDesk, BucketStore
from vcache_cli.assemble.cluster_pass import ClusterPass, open_cluster
from vcache_cli.errors import VcacheError
from vcache_cli.outcome import Status
from vcache_cli.remote import UPLOADS
from vcache_cli.wording import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from vcache_cli.assemble.cluster import ShardWork
    from vcache_cli.assemble.recipes import LoadedRecipe
    from vcache_cli.assemble.warm_pass import Outlet
    from vcache_cli.outcome import Outcome
    from vcache_cli.pipeline import Ledger
    from vcache_cli.remote import ObjectWriter

__all__ = ["BucketRun"]


class BucketRun:
    """The bucket's side of one run. One thread.

    Args:
        store: where the entries go.
        loaded: of the run.
        run_id: of the run, by which `pull` takes it.
    """

    def __init__(self, store: BucketStore, loaded: LoadedRecipe, run_id: str) -> None:
        self._store, self._loaded = store, loaded
        self._record = store.record(run_id)
        self._writer: ObjectWriter | None = None

    @property
    def note(self) -> str:
        """What is left to do; empty where no manifest names what was stored."""
        if self._record.untold:
            return ""
        return f"vcache pull {self._store.share.url} --store DIR  # where a server is to have them"

    @property
    def lanes(self) -> int:
        """How many entries are on their way at once."""
        return UPLOADS

    @contextmanager
    def outlet(self, ledger: Ledger) -> Iterator[Outlet]:
        """Where a pass in this process puts its entries."""
        share, record = self._store.share, self._record
        with share.outlet(self._loaded, lambda each: record.add([each]), ledger) as (
            outlet,
            writer,
        ):
            self._writer = writer
            yield outlet

    def cluster(self, work: ShardWork, ledger: Ledger) -> AbstractContextManager[ClusterPass]:
        """The pass on a cluster, with the memos of this machine."""
        desk = BucketDesk(
            self._loaded, ledger, self._store.share, retry_errors=work.options.retry_errors
        )
        return open_cluster(work, desk=desk, uploaded=self._record.add)

    def see(self, outcomes: Sequence[Outcome]) -> VcacheError | None:
        """Note what was found, and say now and then what was put there; why that failed."""
        path_of = self._store.layout.path_of
        for outcome in outcomes:
            if outcome.status is Status.PRESENT:
                for key in outcome.entry_keys:
                    self._record.meet(path_of(key))
        try:
            self._record.tell()
        except VcacheError as error:
            return error
        return None

    def ended(self, error: VcacheError | None) -> VcacheError | None:
        """Say what belongs together; what ended the run early, `error` or something before it."""
        error = (self._writer and self._writer.error) or error
        try:
            self._record.finish()
        except VcacheError as failed:
            return self._with_untold(error or failed)
        return error

    def _with_untold(self, error: VcacheError) -> VcacheError:
        """The same, with what was stored in vain."""
        if not (untold := self._record.untold):
            return error
        told = f"{count(untold, 'entry', 'entries')} stored there and named by no manifest"
        return type(error)(f"{error.message}; {told}: to be made again", hint=error.hint)

    def abandon(self) -> None:
        """Of a run that is to end at once: wait for no object."""
        if self._writer:
            self._writer.abandon()

    def close(self) -> None:
        """Of a run that something else ended: say what can be said."""
        if not self._record.ended:
            with suppress(VcacheError):
                self._record.finish()
