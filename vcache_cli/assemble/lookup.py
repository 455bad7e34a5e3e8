"""The parts that questions about a corpus have in common: nothing is decoded or changed."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from vcache_cli.assemble.current import where_current
from vcache_cli.assemble.passes import make_prepare, make_triage, make_workers
from vcache_cli.assemble.stores import open_root
from vcache_cli.pipeline import check_items
from vcache_cli.protocols import batches_of
from vcache_cli.store.index import open_index
from vcache_cli.store.presence import Presence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.assemble.recipes import LoadedRecipe
    from vcache_cli.items import FileStat
    from vcache_cli.outcome import Failure, Outcome
    from vcache_cli.protocols import Memo, Recall, Seen, Source

__all__ = ["NOTHING_KNOWN", "Known", "NoMemo", "look_up", "open_known"]

Known = tuple["Memo", "Callable[[str], bool]"]
"""What earlier runs learnt, and whether an entry is there."""


class NoMemo:
    """Where there is no store yet, nothing was learnt."""

    def recall(
        self, files: Sequence[tuple[str, FileStat]], context: str | None
    ) -> list[Recall | None]:
        """Nothing of any."""
        return [None] * len(files)

    def unchanged(self, path: str, stat: FileStat) -> Seen | None:
        """Never seen."""
        return None

    def known(self, source_sha256: str, context: str) -> str | None:
        """Never worked on."""
        return None

    def failed(self, source_sha256: str, context: str) -> Failure | None:
        """Never failed."""
        return None


def _absent(_key: str) -> bool:
    return False


NOTHING_KNOWN: Known = (NoMemo(), _absent)
"""As of a store that does not exist."""


@contextmanager
def open_known(store: Path) -> Iterator[Known]:
    """What the store at `store` knows.

    Raises:
        NotAStoreError: there is none.
        FormatTooNewError, AccessError: it cannot be read.
    """
    with ExitStack() as held:
        root = open_root(store)
        yield held.enter_context(open_index(root)), Presence(root)


def look_up(
    source: Source, loaded: LoadedRecipe, options: WarmOptions, known: Known
) -> Iterator[Outcome]:
    """See `check_items`."""
    memo, present = known
    if isinstance(present, Presence):
        present = where_current(loaded, present)
    return check_items(
        batches_of(source),
        triage=make_triage(loaded, memo, present),
        prepare=make_prepare(loaded, options, present, only_key=True),
        workers=make_workers(loaded, options),
    )
