"""The memos of earlier runs in an open index."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vcache_cli.store.index_file import IndexFile
from vcache_cli.store.memos import MemoTable

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from vcache_cli.folders import FolderFiles
    from vcache_cli.items import FileStat
    from vcache_cli.outcome import Failure
    from vcache_cli.protocols import Recall, Seen
    from vcache_cli.store.index_schema import Database
    from vcache_cli.store.meta import StoreRoot

__all__ = ["IndexMemos"]


class IndexMemos(IndexFile):
    """What runs learnt of sources: hints that save reading and decoding. One thread."""

    def __init__(self, root: StoreRoot, database: Database) -> None:
        self._opened_ns = time.time_ns()
        self._memos = MemoTable(database.connection)
        super().__init__(root, database)

    def _take(self, connection: sqlite3.Connection) -> None:
        self._memos.connection = connection

    def _commit_when_full(self) -> None:
        """Write what is pending, where it is much; for subclasses."""

    def unchanged(self, path: str, stat: FileStat) -> Seen | None:
        """What was learnt of that path, where its stat is still the same."""
        return self._ask(lambda: self._memos.unchanged(path, stat), None)

    def known(self, source_sha256: str, context: str) -> str | None:
        """The entry key of known content; `context` digests recipe and library versions."""
        return self._ask(lambda: self._known(source_sha256, context), None)

    def _known(self, source_sha256: str, context: str) -> str | None:
        key = self._memos.known(source_sha256, context)
        if key is not None:
            self._check_key(key)
        return key

    def failed(self, source_sha256: str, context: str) -> Failure | None:
        """The permanent failure that this content met before."""
        return self._ask(lambda: self._memos.failed(source_sha256, context), None)

    def recall(
        self, files: Sequence[tuple[str, FileStat]], context: str | None
    ) -> list[Recall | None]:
        """`unchanged` and `known` of many files at once, in order; the fast way.

        No key is looked for where `context` is None.
        """
        return self._ask(lambda: self._recall(files, context), [None] * len(files))

    def _recall(
        self, files: Sequence[tuple[str, FileStat]], context: str | None
    ) -> list[Recall | None]:
        found = self._memos.recall(files, context)
        for each in found if context else ():
            if each is not None and each.key is not None:
                self._check_key(each.key)
        return found

    def digests_of(self, files: FolderFiles) -> Sequence[str]:
        """Content of each file that `unchanged` calls a picture; empty of any other."""
        return self._ask(lambda: self._memos.digests_of(files), [""] * len(files))

    def known_among(self, digests: Sequence[str], context: str) -> Sequence[str]:
        """`known` of each content, in order; empty where it is not."""
        return self._ask(lambda: self._known_among(digests, context), [""] * len(digests))

    def _known_among(self, digests: Sequence[str], context: str) -> Sequence[str]:
        found = self._memos.known_among(digests, context)
        for key in filter(None, found):
            self._check_key(key)
        return found

    def remember_unchanged(
        self, path: str, stat: FileStat, seen: Seen, now_ns: int | None = None
    ) -> None:
        """What the file at `path` holds; not recorded while it may change again unnoticed.

        Args:
            path: as the operating system spells it (`surrogateescape`), absolute.
            stat: from before the file was read.
            seen: what was read.
            now_ns: when it was read, at the latest; when the index was opened, where not given.
        """
        self._memos.remember_unchanged(path, stat, seen, now_ns or self._opened_ns)
        self._commit_when_full()

    def remember_known(self, source_sha256: str, context: str, key: str) -> None:
        """That this content has this entry key."""
        self._memos.remember_known(source_sha256, context, key)

    def remember_failure(self, source_sha256: str, context: str, failure: Failure) -> None:
        """That this content fails for good; a transient failure is not recorded."""
        self._memos.remember_failure(source_sha256, context, failure)

    def forget_failures(self) -> None:
        """So that every item that failed is tried again."""
        self._ask(self._memos.forget_failures, None)
