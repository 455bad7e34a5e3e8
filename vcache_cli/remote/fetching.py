"""Objects out of a bucket, several at a time, each compared with the digest that names it."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vcache_cli.digest import digest_bytes
from vcache_cli.errors import ReadError
from vcache_cli.remote.names import object_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vcache_cli.remote.catalogue import RemoteStore
    from vcache_cli.store.archive_parts import ArchivedFile

__all__ = ["Fetched", "fetch_all"]

_MOST_HELD_BYTES: Final = 256 * 1024**2


@dataclass(frozen=True, slots=True)
class Fetched:
    """An entry's bytes, or why there are none."""

    key: str
    file: ArchivedFile
    data: bytes = b""
    kind: str = ""
    """Empty where the bytes are those that the manifest promises; else ``digest``, ``missing`` or
    a kind of `Bucket`."""
    message: str = ""
    error: ReadError | None = None


def fetch_all(
    remote: RemoteStore, wanted: Iterable[tuple[str, ArchivedFile]], *, jobs: int
) -> Iterator[Fetched]:
    """Each wanted file, in order; so many at once, and no more bytes than have room.

    Args:
        remote: where they are.
        wanted: keys and descriptions.
        jobs: objects read at once.
    """
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="vcache-pull")
    pending: deque[tuple[ArchivedFile, Future[Fetched]]] = deque()
    held_bytes = 0
    try:
        for key, file in wanted:
            while pending and (
                len(pending) >= 2 * jobs or held_bytes + file.size_bytes > _MOST_HELD_BYTES
            ):
                first, done = pending.popleft()
                yield done.result()
                held_bytes -= first.size_bytes
            pending.append((file, pool.submit(_fetch, remote, key, file)))
            held_bytes += file.size_bytes
        while pending:
            yield pending.popleft()[1].result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _fetch(remote: RemoteStore, key: str, file: ArchivedFile) -> Fetched:
    name = object_name(file.sha256)
    try:
        # One byte more than is promised, so that a longer one shows, and costs no more.
        data = remote.bucket.read(remote.path(name), file.size_bytes + 1)
    except ReadError as error:
        if error.item_kind == "not_found":
            return Fetched(key, file, kind="missing", message=f"`{name}` is not there")
        return Fetched(key, file, kind=error.item_kind, message=error.message, error=error)
    if len(data) != file.size_bytes or digest_bytes(data) != file.sha256:
        return Fetched(
            key, file, kind="digest", message=f"`{name}` is damaged: its bytes are not of its name"
        )
    return Fetched(key, file, data)
