"""Files of a folder looked up as columns: what is there costs no value of its own."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from operator import not_
from typing import TYPE_CHECKING

from vcache_cli.folders import FolderFiles
from vcache_cli.outcome import PresentFiles
from vcache_cli.protocols import Evidence, FolderMemo, ManyKeys

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from vcache_cli.items import WarmItem
    from vcache_cli.pipeline.triage import Triage

__all__ = ["FolderLookup"]


@dataclass(frozen=True, slots=True)
class _Recalled:
    """What memos say of a folder's files, in order; empty of what they do not know."""

    files: FolderFiles
    digests: Sequence[str]
    keys: Sequence[str]

    def split(self, there: Sequence[bool]) -> tuple[PresentFiles | None, Sequence[WarmItem]]:
        """Those whose entry is `there`, and the others."""
        if not any(there):
            return None, self.files
        found = PresentFiles(self.files, self.digests, self.keys)
        if all(there):
            return found, ()
        return found.chosen(there), self.files.chosen(map(not_, there))


@dataclass(frozen=True, slots=True)
class FolderLookup:
    """Finds the pictures that did not change and are there."""

    triage: Triage
    memo: FolderMemo | None
    """The memo of `triage`; None where it knows of single files only."""

    @classmethod
    def of(cls, triage: Triage) -> Self:
        """What can be asked of the memo that `triage` asks."""
        return cls(triage, triage.memo if isinstance(triage.memo, FolderMemo) else None)

    def split(
        self, batches: Sequence[Sequence[WarmItem]]
    ) -> tuple[list[PresentFiles], list[WarmItem]]:
        """What is there, by folder, and all else in order: of that `Triage` knows more."""
        recalled = [self._recalled(each) for each in batches]
        columns = [each for each in recalled if isinstance(each, _Recalled)]
        there = iter(self._are_there([*chain.from_iterable(each.keys for each in columns)]))
        present: list[PresentFiles] = []
        rest: list[WarmItem] = []
        for each in recalled:
            if isinstance(each, _Recalled):
                found, others = each.split([*islice(there, len(each.keys))])
                present += [found] if found else []
            else:
                others = each
            rest.extend(others)
        return present, rest

    def _are_there(self, keys: Sequence[str]) -> Sequence[bool]:
        """Whether the entry of each key is in the store; no key, no entry."""
        known = [*filter(None, keys)]
        found = self.triage.are_there(known)
        if len(known) == len(keys):
            return found
        told = iter(found)
        return [bool(key) and next(told) for key in keys]

    def _recalled(self, batch: Sequence[WarmItem]) -> _Recalled | Sequence[WarmItem]:
        """`batch` itself where nothing can be asked of it as a whole."""
        if self.memo is None or not isinstance(batch, FolderFiles):
            return batch
        digests = self.memo.digests_of(batch)
        known = [*filter(None, digests)]
        keys = self._keys(self.memo, known)
        if len(known) < len(digests):
            made = iter(keys)
            keys = [next(made) if digest else "" for digest in digests]
        return _Recalled(batch, digests, keys)

    def _keys(self, memo: FolderMemo, digests: Sequence[str]) -> Sequence[str]:
        target, recipe = self.triage.target, self.triage.recipe
        if target.key_from != "digest":
            return memo.known_among(digests, self.triage.context)
        if isinstance(target, ManyKeys):
            return target.keys(recipe, digests)
        return [target.key(recipe, Evidence(digest)) for digest in digests]
